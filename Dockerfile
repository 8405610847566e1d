# The book's environment, for whoever has no Python of their own, and for Codespaces (.devcontainer). After `docker build` nothing needs a network:
#   docker build -t iclbook .
#   docker run --network none iclbook make book
#   docker run --network none iclbook make test
# For the CPU build of torch: docker build --build-arg TORCH_INDEX=ADDRESS, with the address for CPU that PyTorch's installation page shows.
FROM python:3.11-slim-bookworm

RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      chromium chromium-driver clang fonts-dejavu-core gcc git libc6-dev lld make \
 && rm -rf /var/lib/apt/lists/*

# An ordinary user owns the checkout; what is in it is what the build context has, less .dockerignore.
RUN useradd --create-home reader
USER reader
WORKDIR /home/reader/iclbook
ARG TORCH_INDEX=
COPY --chown=reader Makefile lock.txt requirements.txt pyproject.toml README.md ./
COPY --chown=reader src src
# The environment first, so that a change of a page does not install it again.
RUN make setup PYTHON=python3.11 && rm -rf ~/.cache/pip
COPY --chown=reader . .
CMD ["make", "help"]
