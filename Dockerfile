# LedgerAgent's command line as an image, with the pinned Open Policy Agent beside it. docker-compose.yml makes the
# bundles and keeps the decision logs with it.
FROM python:3.11-slim-bookworm AS build
# For a mirror of your own, or for wheels in the build context where there is no network.
ARG PIP_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
COPY . /src
RUN python3 -m venv /opt/ledgeragent \
    && /opt/ledgeragent/bin/pip install --quiet --no-cache-dir --disable-pip-version-check /src

FROM python:3.11-slim-bookworm
COPY --from=openpolicyagent/opa:1.22.3 /opa /opt/opa/opa
COPY --from=build /opt/ledgeragent /opt/ledgeragent
# Volumes that are mounted here for the first time take over who owns these folders.
RUN install --directory --owner=1000 --group=1000 --mode=0700 /decisions /signing-key \
    && install --directory --owner=1000 --group=1000 --mode=0755 /bundles /verification-key
ENV PATH=/opt/ledgeragent/bin:$PATH \
    LEDGERAGENT_OPA_BIN=/opt/opa/opa \
    PYTHONUNBUFFERED=1
USER 1000:1000
ENTRYPOINT ["ledgeragent"]
