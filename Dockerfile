# docker build -t fedsim . && docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" fedsim run a.fedsim.yaml
FROM python:3.13-slim AS built
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim
COPY --from=built /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && useradd --create-home --uid 1000 fedsim
# What a first run compiles and finds, for every processor and user: any --user can write there.
ENV NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=/var/cache/fedsim/numba MPLCONFIGDIR=/var/cache/fedsim/matplotlib \
    XDG_CACHE_HOME=/var/cache/fedsim
RUN mkdir -p "$NUMBA_CACHE_DIR" "$MPLCONFIGDIR" && cd "$(mktemp -d)" && fedsim init first.fedsim.yaml \
    && fedsim run first.fedsim.yaml --set stop.rounds=3 && rm -r "$PWD" && chmod -R a+rwX "$XDG_CACHE_HOME"
USER fedsim
WORKDIR /data
ENTRYPOINT ["fedsim"]
CMD ["--help"]
