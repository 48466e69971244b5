#!/bin/sh
# Installs what scripts/train_models.py needs on Debian 12 (or a relative), then runs
# it with the arguments given here.
set -eu

packages=
for package in python3-numpy python3-torch python3-onnx libopenblas0-pthread; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || packages="$packages $package"
done

if [ -n "$packages" ]; then
    sudo=
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    $sudo apt-get update
    # shellcheck disable=SC2086  # a list of packages
    $sudo apt-get install -y --no-install-recommends $packages
fi

# The system's Python: Debian's packages are not visible to any other.
exec /usr/bin/python3 "$(dirname "$0")/train_models.py" "$@"
