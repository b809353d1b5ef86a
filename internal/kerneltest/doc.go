// Package kerneltest is the way to other kernels: it boots User-Mode Linux, a
// kernel that is an ordinary program, and runs a test binary in it. It needs no
// root, no virtual machine and no network, and a second or two for each test
// binary:
//
//	go run ./internal/kerneltest/cmd/fetchkernels 6.1
//	CGO_ENABLED=0 go build -o bin/umlrun ./internal/kerneltest/cmd/umlrun
//	CGO_ENABLED=0 go test -exec "$PWD/bin/umlrun -kernel 6.1" ./mount
//
// "make test-kernels" does this for each kernel that we promise to work on, and
// "make test-nfs" for tests that need an NFS server: their names begin with TestNFS.
// This package itself is empty. Its rooms:
//
//   - kernels: which kernels there are, fetching them from Debian, with mount.nfs;
//     the cache.
//   - modules: which modules a module needs.
//   - initrd: the archive that a kernel finds its first program in.
//   - boot: the host's side. Starts a kernel and brings back what the test says.
//   - guest: the other side. Is the first program, and starts the test.
//   - nfsserver: for tests in a guest, the kernel's NFS server.
//   - abreast: runs commands side by side, one for each kernel.
//   - link: takes network devices up and down, and makes pairs of them.
//
// Do not use it for what a machine's own kernel shows as well, or for races: the
// guest has one processor, and no race detector runs in the kernels before 7.
package kerneltest
