# The viewer and its worker in one image; docker-compose.yml runs both.

# The page is built from what the API says of itself.
FROM python:3.12-slim AS api
WORKDIR /source
# .dockerignore names what a wheel is made of.
COPY . ./
RUN DLPROF_SKIP_FRONTEND_BUILD=1 pip install --no-cache-dir -c constraints.txt ".[viewer]"
RUN python scripts/write_openapi.py

FROM node:22-slim AS page
WORKDIR /source/frontend
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY frontend ./
# The pages behind the info icons are built in.
COPY docs/views /source/docs/views
# So are the translations.
COPY aggregator/texts /source/aggregator/texts
COPY --from=api /source/docs/openapi.json /source/docs/openapi.json
# Written to /source/viewer/static/dlprof, and the page of HTML reports to /source/aggregator.
RUN npm run build

FROM python:3.12-slim AS wheel
WORKDIR /source
RUN pip install --no-cache-dir build
COPY . ./
COPY --from=page /source/viewer/static/dlprof viewer/static/dlprof
COPY --from=page /source/aggregator/html_report/page.html aggregator/html_report/page.html
RUN DLPROF_SKIP_FRONTEND_BUILD=1 python -m build --wheel

FROM python:3.12-slim
COPY constraints.txt /tmp/constraints.txt
COPY --from=wheel /source/dist/*.whl /tmp/
RUN pip install --no-cache-dir -c /tmp/constraints.txt "$(echo /tmp/*.whl)[viewer]" && rm /tmp/*.whl /tmp/constraints.txt
# A user that owns nothing but state and uploads; /data has to be writable by it to add aggregations.
RUN useradd --uid 10001 --create-home dlprof && mkdir /state /data /uploads && chown dlprof /state /data /uploads
USER dlprof
ENV DLPROF_STATE_DIR=/state DLPROF_UPLOAD_DIR=/uploads PYTHONUNBUFFERED=1
VOLUME ["/state", "/data", "/uploads"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8000, timeout=2); c.request('GET', '/healthz', headers={'Host': 'localhost'}); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["dlprofviewer"]
CMD ["--bind", "0.0.0.0", "/data"]
