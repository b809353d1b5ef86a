// Package dockerserver runs a real Docker daemon, with its containerd, for one test in namespaces of its own.
//
// The programs are Debian's packages docker.io, containerd, runc and busybox, unpacked and not installed. [Fetch]
// downloads them once, into the directory VOLUMEKIT_DOCKER or a directory in the user's cache; "make test-docker"
// does so and runs the tests that use [Start].
//
// containerd is a process of its own, so that containers outlive a daemon that is killed, as on a machine with systemd.
package dockerserver
