#!/bin/sh
# Makes the place in which stock Corefiles run, in namespaces of its own (network, mounts): loopback with
# node-local DNS's addresses, an /etc that may be written, a folder for the account of a pod. Then runs the command.
set -eu
ip link set lo up
for address in 169.254.20.10 10.96.0.10; do ip addr add "$address/32" dev lo; done
kept=$(mktemp -d)
mkdir "$kept/ssl"
for name in passwd group hosts nsswitch.conf ld.so.cache localtime ssl/openssl.cnf; do
    [ ! -e "/etc/$name" ] || cp -L "/etc/$name" "$kept/$name"
done
mount -t tmpfs tmpfs /etc
cp -r "$kept/." /etc/
rm -rf "$kept"
echo "nameserver 127.0.0.54" >/etc/resolv.conf
mkdir -p /etc/coredns/custom
# /var/run is a link to /run, or a folder of its own.
mount -t tmpfs tmpfs "$(readlink -f /var/run)"
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
# Where a server keeps its state unless told otherwise.
mount -t tmpfs tmpfs /var/lib
exec "$@"
