# docker build -t fedsim . && docker run --rm -v "$PWD:/data" fedsim run a.fedsim.yaml
FROM python:3.13-slim AS built
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim
COPY --from=built /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && useradd --create-home --uid 1000 fedsim
USER fedsim
WORKDIR /data
ENTRYPOINT ["fedsim"]
CMD ["--help"]
