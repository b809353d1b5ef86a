// Package kerneltest runs tests on other kernels: it boots User-Mode Linux, a kernel that is
// an ordinary program, and runs a test binary in it. It needs no root, no virtual machine
// and no network, and takes a second or two for each test binary:
//
//	go run ./internal/kerneltest/cmd/fetchkernels 6.1
//	CGO_ENABLED=0 go build -o bin/umlrun ./internal/kerneltest/cmd/umlrun
//	CGO_ENABLED=0 go test -exec "$PWD/bin/umlrun -kernel 6.1" ./mount
//
// "make test-kernels" does this for each supported kernel, and "make test-nfs" for tests
// that need an NFS server: their names begin with TestNFS. This package itself is empty.
// Its rooms:
//
//   - kernels: the list of kernels; downloads them from Debian, with mount.nfs; the cache.
//   - modules: dependencies of kernel modules.
//   - initrd: the archive with a kernel's first program.
//   - boot: the host's side. Starts a kernel and returns the test's result.
//   - guest: the guest's side. Is the first program, and starts the test.
//   - nfsserver: the kernel's NFS server, for tests in a guest.
//   - abreast: runs commands in parallel, one for each kernel.
//   - link: sets network devices up and down, and makes pairs of them.
//
// Do not use it for tests that the machine's own kernel can run as well, or for races: the
// guest has one processor, and the race detector does not run in the kernels before 7.
package kerneltest
