//! Which files a child can reach, by landlock.
//!
//! Landlock only allows, and what it allows of a folder it allows of everything below. So the rules are computed from `/`
//! down at each start: an entry that neither is nor holds a denied folder is allowed whole, one that holds a denied folder
//! is walked instead. The names in folders can be listed everywhere; contents can't be read.
//!
//! What follows: in a folder that holds a denied one (usually a person's home) a child can't make or rename entries, and
//! what others put there later is out of its reach.

use std::fs::File;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::fs::{Mode, OFlags};

/// The newest rights that are asked for; an older kernel gives those that it knows.
const NEWEST: ABI = ABI::V6;
/// Devices that every program may use. The others are out of bounds: a disk as a device holds every file, and a person's
/// terminal tells what is typed.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/shm",
];

/// What the kernel of this host can keep a child from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// The version of landlock that is used, from 1; `None` without landlock.
    pub landlock: Option<u8>,
}

impl Kernel {
    /// Asks the kernel.
    #[must_use]
    pub fn probe() -> Self {
        let versions = [(6, ABI::V6), (5, ABI::V5), (3, ABI::V3), (2, ABI::V2)];
        let known = versions.into_iter().find(|(_, abi)| is_known(*abi));
        Self {
            landlock: known.map(|(version, _)| version),
        }
    }

    /// Whether files out of bounds are out of a child's reach.
    #[must_use]
    pub fn confines_files(self) -> bool {
        self.landlock.is_some()
    }
}

impl std::fmt::Display for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.landlock {
            Some(version) if version >= 6 => write!(f, "child processes are kept from keys and from other processes"),
            Some(_) => write!(
                f,
                "child processes are kept from keys, but may signal other processes of this user (Linux 6.12 mends it)"
            ),
            None => write!(
                f,
                "this kernel has no landlock (Linux 5.19 or later): commands of the agent can read whatever this user can"
            ),
        }
    }
}

fn is_known(abi: ABI) -> bool {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi));
    let scopes = Scope::from_all(abi);
    let ruleset = match ruleset {
        Ok(ruleset) if !scopes.is_empty() => ruleset.scope(scopes),
        other => other,
    };
    ruleset.and_then(Ruleset::create).is_ok()
}

/// The rules for a child; `None` where the kernel has no landlock.
pub(super) struct Reach {
    ruleset: Option<RulesetCreated>,
}

impl Reach {
    /// Computes the rules. `denied` and `writable` are canonical; a writable folder may be inside a denied one.
    pub(super) fn of(denied: &[PathBuf], writable: &[PathBuf]) -> Result<Self, RulesetError> {
        if !Kernel::probe().confines_files() {
            return Ok(Self { ruleset: None });
        }
        let ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        let mut denied = denied.to_vec();
        denied.push("/dev".into());
        let mut rules = Rules { ruleset, denied };
        rules.add(Path::new("/"), AccessFs::ReadDir.into())?;
        rules.grant(Path::new("/"), AccessFs::from_read(NEWEST))?;
        let all = AccessFs::from_all(NEWEST) & !(AccessFs::MakeBlock | AccessFs::MakeChar);
        for path in writable {
            rules.grant(path, all)?;
        }
        for device in DEVICES {
            rules.add(Path::new(device), all)?;
        }
        Ok(Self {
            ruleset: Some(rules.ruleset),
        })
    }

    /// Binds this process and its children to the rules. Whether there are any.
    pub(super) fn restrict_self(self) -> Result<bool, RulesetError> {
        match self.ruleset {
            Some(ruleset) => ruleset.restrict_self().map(|_| true),
            None => Ok(false),
        }
    }
}

struct Rules {
    ruleset: RulesetCreated,
    denied: Vec<PathBuf>,
}

impl Rules {
    /// Allows everything below `path` but for what is denied.
    fn grant(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), RulesetError> {
        if !self.denied.iter().any(|denied| denied.starts_with(path)) {
            return self.add(path, rights);
        }
        // A folder that can't be listed stays out of reach.
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            let path = entry.path();
            if !self.denied.contains(&path) {
                self.grant(&path, rights)?;
            }
        }
        Ok(())
    }

    /// Allows a file or folder. A symbolic link needs no rule: what counts is where it leads.
    fn add(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), RulesetError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(path, flags, Mode::empty()).map(File::from) else {
            return Ok(());
        };
        let Ok(metadata) = file.metadata() else {
            return Ok(());
        };
        if metadata.is_symlink() {
            return Ok(());
        }
        let rights = if metadata.is_dir() {
            rights
        } else {
            rights & AccessFs::from_file(NEWEST)
        };
        if !rights.is_empty() {
            (&mut self.ruleset).add_rule(PathBeneath::new(file, rights))?;
        }
        Ok(())
    }
}
