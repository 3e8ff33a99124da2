#!/bin/sh
# Unpacks the PgBouncer of Debian or Ubuntu for the tests of poolers, without root: pgbouncer.sh FOLDER
#
# No package index has the program. apt checks the packages by the signed list of the distribution. Without apt
# the tests use a PgBouncer on PATH, or else only an emulation.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
PATH=$PATH:/usr/sbin
if command -v pgbouncer >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
  exit 0
fi
rm -rf "$folder/root" "$folder/download"
mkdir "$folder/root" "$folder/download"
cd "$folder/download"
libraries=$(apt-cache depends pgbouncer 2>/dev/null | sed -n 's/^ *Depends: \(lib\(event\|c-ares\|cares\).*\)$/\1/p')
# shellcheck disable=SC2086 (several names)
if apt-get -o APT::Sandbox::User=root download pgbouncer $libraries >/dev/null 2>&1; then
  for package in *.deb; do
    dpkg-deb -x "$package" "$folder/root"
  done
else
  echo "== clients: apt has no pgbouncer; its tests use an emulation"
fi
cd "$folder"
rm -rf download
