# Sourced by quickstart.sh and test.sh: installs Debian packages that are missing, and says so.

packages_to_build="g++ cmake ninja-build pkg-config libmpfr-dev libgmp-dev nlohmann-json3-dev libcli11-dev libfmt-dev libzip-dev zlib1g-dev"
packages_to_test="libboost-dev libeigen3-dev doctest-dev librapidcheck-dev libvalijson-dev git"
peers_to_bench="libboost-dev libeigen3-dev libopenblas-dev libflint-arb-dev libqd-dev libvtk9-dev"
programs_of_examples="libcgal-dev libvtk9-dev"

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || echo "$package"
  done
}

# install_packages PACKAGE…: quick when nothing is missing; as root or through sudo.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "This script installs packages on Debian and its relatives. Elsewhere install the equivalents of:" >&2
    echo "  $*" >&2
    echo "and run: cmake --preset release && cmake --build --preset release" >&2
    exit 1
  fi
  local missing runner=""
  missing=$(missing_packages "$@" | tr '\n' ' ')
  [ -z "$missing" ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      runner="sudo"
    else
      echo "Missing packages: $missing" >&2
      echo "You are not root and sudo does not work here. Ask an administrator to run:" >&2
      echo "  apt-get update && apt-get install -y --no-install-recommends $missing" >&2
      echo "then run this script again." >&2
      exit 1
    fi
  fi
  echo "Installing: $missing"
  $runner apt-get update -qq
  # shellcheck disable=SC2086
  $runner env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
