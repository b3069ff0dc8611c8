//! Keys that vendors make so that they can be told: a prefix, an alphabet, a length. Facts of the vendors' documents.

use std::sync::LazyLock;

/// Which characters the rest of a key has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    Hex,
    /// Capitals and digits.
    Upper,
    Alnum,
    /// Letters, digits, `_`.
    Word,
    /// Letters, digits, `_`, `-`.
    UrlSafe,
    /// As `UrlSafe`, and `.`.
    Dotted,
    /// Both alphabets of base64, with padding.
    Base64,
    /// As `Dotted`, and `/`.
    Path,
}

impl Alphabet {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::UrlSafe => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Self::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-'),
            Self::Path => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/'),
        }
    }
}

/// One form of a key: how it begins, what follows, and how many characters follow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vendor {
    pub(super) kind: &'static str,
    pub(super) prefixes: &'static [&'static str],
    pub(super) alphabet: Alphabet,
    pub(super) min: usize,
    pub(super) max: usize,
}

const fn row(
    kind: &'static str,
    prefixes: &'static [&'static str],
    alphabet: Alphabet,
    min: usize,
    max: usize,
) -> Vendor {
    Vendor {
        kind,
        prefixes,
        alphabet,
        min,
        max,
    }
}

use Alphabet::{Alnum, Base64, Dotted, Hex, Path, Upper, UrlSafe, Word};

/// The table. A vendor with keys of several forms has several rows.
#[rustfmt::skip]
pub(super) const VENDORS: &[Vendor] = &[
    // Ours: `tlr_<ulid>_<43 characters>`.
    row("talaria", &["tlr_"], UrlSafe, 70, 70),
    // Models.
    row("openai", &["sk-proj-", "sk-svcacct-", "sk-admin-"], UrlSafe, 20, 250),
    row("openai", &["sk-"], UrlSafe, 32, 120),
    row("anthropic", &["sk-ant-"], UrlSafe, 24, 250),
    row("openrouter", &["sk-or-"], UrlSafe, 32, 120),
    row("langfuse", &["sk-lf-"], UrlSafe, 36, 36),
    row("google", &["AIza"], UrlSafe, 35, 35),
    row("groq", &["gsk_"], Alnum, 40, 64),
    row("perplexity", &["pplx-"], Alnum, 40, 64),
    row("xai", &["xai-"], Alnum, 70, 90),
    row("cerebras", &["csk-"], Alnum, 40, 64),
    row("fireworks", &["fw_"], Alnum, 22, 28),
    row("nvidia", &["nvapi-"], UrlSafe, 55, 80),
    row("hugging-face", &["hf_", "api_org_"], Alnum, 30, 40),
    row("replicate", &["r8_"], Alnum, 37, 40),
    row("elevenlabs", &["sk_"], Hex, 48, 48),
    row("langsmith", &["lsv2_pt_", "lsv2_sk_"], Word, 40, 50),
    row("pinecone", &["pcsk_"], Word, 50, 80),
    row("tavily", &["tvly-"], UrlSafe, 20, 60),
    row("firecrawl", &["fc-"], Hex, 32, 32),
    row("apify", &["apify_api_"], Alnum, 30, 46),
    // Clouds and hosts.
    row("aws", &["AKIA", "ASIA", "ABIA", "ACCA"], Upper, 16, 16),
    row("google-oauth", &["GOCSPX-"], UrlSafe, 28, 28),
    row("google-oauth", &["ya29."], UrlSafe, 20, 1024),
    row("google-oauth", &["1//0"], UrlSafe, 40, 120),
    row("alibaba", &["LTAI"], Alnum, 12, 26),
    row("tencent", &["AKID"], Alnum, 32, 36),
    row("yandex", &["AQVN"], UrlSafe, 35, 38),
    row("digitalocean", &["dop_v1_", "doo_v1_", "dor_v1_"], Hex, 64, 64),
    row("heroku", &["HRKU-"], UrlSafe, 36, 64),
    row("netlify", &["nfp_"], Alnum, 36, 48),
    row("fly", &["fm1_", "fm2_", "fo1_"], Base64, 40, 1000),
    row("render", &["rnd_"], Alnum, 28, 40),
    row("cloudflare-origin", &["v1.0-"], UrlSafe, 150, 190),
    row("supabase", &["sbp_"], Hex, 40, 40),
    row("supabase", &["sb_secret_"], UrlSafe, 28, 48),
    row("neon", &["napi_"], Alnum, 48, 80),
    row("planetscale", &["pscale_tkn_", "pscale_pw_", "pscale_oauth_"], Dotted, 32, 64),
    row("aiven", &["AVNS_"], UrlSafe, 16, 24),
    row("mongodb-atlas", &["mdb_sa_sk_"], UrlSafe, 36, 56),
    row("databricks", &["dapi"], Hex, 32, 34),
    row("tailscale", &["tskey-"], UrlSafe, 20, 100),
    row("openshift", &["sha256~"], UrlSafe, 43, 43),
    row("deno", &["ddp_", "ddw_"], Alnum, 36, 36),
    // Code, packages, builds.
    row("github", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], Alnum, 36, 255),
    row("github", &["github_pat_"], Word, 50, 255),
    row("gitlab", &["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glft-", "glsoat-", "glimt-", "glagent-"], Dotted, 20, 100),
    row("bitbucket", &["ATBB"], UrlSafe, 28, 40),
    row("atlassian", &["ATATT3x", "ATCTT3x"], Base64, 60, 250),
    row("npm", &["npm_"], Alnum, 36, 36),
    row("pypi", &["pypi-"], UrlSafe, 50, 250),
    row("rubygems", &["rubygems_"], Hex, 48, 48),
    row("crates-io", &["cio"], Alnum, 32, 32),
    row("nuget", &["oy2"], Alnum, 43, 43),
    row("clojars", &["CLOJARS_"], Hex, 60, 60),
    row("docker", &["dckr_pat_", "dckr_oat_"], UrlSafe, 27, 40),
    row("artifactory", &["AKCp"], Alnum, 60, 76),
    row("sourcegraph", &["sgp_"], Word, 40, 60),
    row("sonar", &["sqp_", "squ_", "sqa_"], Hex, 40, 40),
    row("buildkite", &["bkua_"], Hex, 40, 40),
    row("circleci", &["CCIPAT_", "CCIPRJ_"], Word, 40, 80),
    row("pulumi", &["pul-"], Hex, 40, 40),
    row("terraform", &["atlasv1."], UrlSafe, 60, 70),
    row("vault", &["hvs.", "hvb.", "hvr."], UrlSafe, 24, 300),
    row("doppler", &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."], Dotted, 40, 70),
    row("1password", &["ops_ey"], Base64, 200, 1024),
    row("age", &["AGE-SECRET-KEY-1"], Upper, 58, 58),
    row("infracost", &["ico-"], Alnum, 32, 32),
    row("prefect", &["pnu_", "pnb_"], Alnum, 36, 36),
    row("postman", &["PMAK-"], UrlSafe, 59, 59),
    row("wakatime", &["waka_"], UrlSafe, 36, 36),
    row("readme", &["rdme_"], Alnum, 70, 70),
    // What watches.
    row("grafana", &["glc_", "glsa_"], Base64, 32, 400),
    row("sentry", &["sntrys_"], Base64, 80, 400),
    row("sentry", &["sntryu_"], Hex, 64, 64),
    row("new-relic", &["NRAK-", "NRJS-", "NRII-", "NRIQ-"], UrlSafe, 19, 40),
    row("dynatrace", &["dt0c01.", "dt0s01."], Dotted, 80, 100),
    row("honeycomb", &["hcaik_", "hcamk_", "hcxik_"], Alnum, 50, 70),
    row("posthog", &["phx_"], Alnum, 36, 50),
    // Chats and mail.
    row("slack", &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxc-", "xoxd-", "xapp-"], UrlSafe, 20, 250),
    row("slack", &["xoxe.xoxb-", "xoxe.xoxp-"], UrlSafe, 40, 250),
    row("slack-webhook", &["hooks.slack.com/services/", "hooks.slack.com/workflows/"], Path, 40, 100),
    row("discord-webhook", &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"], Path, 70, 110),
    row("teams-webhook", &["webhook.office.com/webhookb2/"], Path, 30, 60),
    row("zapier-webhook", &["hooks.zapier.com/hooks/catch/"], Path, 10, 40),
    row("sendgrid", &["SG."], Dotted, 60, 70),
    row("mailgun", &["key-"], Hex, 32, 32),
    row("mailersend", &["mlsn."], Hex, 64, 64),
    row("brevo", &["xkeysib-", "xsmtpsib-"], UrlSafe, 70, 90),
    row("resend", &["re_"], Word, 30, 40),
    row("twilio", &["SK"], Hex, 32, 32),
    row("facebook-or-square", &["EAA"], UrlSafe, 60, 120),
    row("twitter", &["AAAAAAAAAAAAAAAAAAAAA"], Base64, 60, 120),
    // Money.
    row("stripe", &["sk_live_", "sk_test_", "rk_live_", "rk_test_"], Alnum, 16, 250),
    row("webhook-secret", &["whsec_"], Base64, 24, 100),
    row("square", &["sq0atp-", "sq0csp-"], UrlSafe, 22, 43),
    row("shopify", &["shpat_", "shpca_", "shppa_", "shpss_"], Hex, 32, 32),
    row("braintree", &["access_token$production$", "access_token$sandbox$"], Alnum, 16, 16),
    row("plaid", &["access-production-", "access-sandbox-", "access-development-"], UrlSafe, 36, 36),
    row("easypost", &["EZAK", "EZTK"], Alnum, 54, 54),
    row("flutterwave", &["FLWSECK-", "FLWSECK_TEST-"], UrlSafe, 32, 60),
    row("duffel", &["duffel_live_", "duffel_test_"], UrlSafe, 43, 43),
    row("shippo", &["shippo_live_", "shippo_test_"], Hex, 40, 40),
    // Work.
    row("linear", &["lin_api_", "lin_oauth_"], Alnum, 40, 64),
    row("notion", &["ntn_"], Alnum, 40, 50),
    row("notion", &["secret_"], Alnum, 43, 43),
    row("airtable", &["pat"], Dotted, 79, 79),
    row("figma", &["figd_", "figu_"], UrlSafe, 40, 60),
    row("dropbox", &["sl."], UrlSafe, 120, 1024),
    row("contentful", &["CFPAT-"], UrlSafe, 43, 43),
    row("hubspot", &["pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"], UrlSafe, 36, 36),
    row("typeform", &["tfp_"], Dotted, 40, 70),
    row("frame-io", &["fio-u-"], UrlSafe, 64, 64),
    row("scalingo", &["tk-us-"], UrlSafe, 48, 48),
    row("mapbox", &["sk.eyJ"], Dotted, 60, 200),
];

/// The forms of each first byte, the longest prefix first.
struct Index(Vec<Vec<(&'static str, &'static Vendor)>>);

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut buckets = vec![Vec::new(); 128];
    for vendor in VENDORS {
        for prefix in vendor.prefixes {
            let first = prefix.as_bytes().first().copied().unwrap_or_default();
            if let Some(bucket) = buckets.get_mut(usize::from(first)) {
                bucket.push((*prefix, vendor));
            }
        }
    }
    for bucket in &mut buckets {
        bucket.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    }
    Index(buckets)
});

/// The forms of keys that begin with this byte, the longest prefix first.
pub(super) fn beginning_with(first: u8) -> &'static [(&'static str, &'static Vendor)] {
    INDEX.0.get(usize::from(first)).map(Vec::as_slice).unwrap_or_default()
}
