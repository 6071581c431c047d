# The daemon as an image: one binary on a small Debian.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked

FROM debian:bookworm-slim
# The certificates are for suppliers, webhooks and databases that are spoken to over TLS.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* && useradd --system --create-home --home-dir /var/lib/stockhold stockhold
COPY --from=build /src/target/dist/stockhold /usr/local/bin/stockhold
USER stockhold
WORKDIR /var/lib/stockhold
EXPOSE 8080
# SIGTERM drains: no new work, running work finishes.
STOPSIGNAL SIGTERM
ENTRYPOINT ["stockhold"]
CMD ["serve"]
