# Builds and runs one Talaria server on SQLite.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked -p talaria-server -p talaria-client

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 talaria && mkdir -p /data/home /data/workspace && chown -R talaria /data
COPY --from=build /src/target/dist/talaria-server /src/target/dist/talaria /usr/local/bin/
USER talaria
WORKDIR /data/workspace
ENV TALARIA_HOME=/data/home TALARIA_LISTEN=0.0.0.0:8640
VOLUME /data
EXPOSE 8640
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD curl -fsS http://127.0.0.1:8640/healthz || exit 1
ENTRYPOINT ["talaria-server"]
