// Package sanitytest runs csi-sanity, the tests of the Container Storage Interface for drivers, on
// plugins that package driver serves. The tests are a module of their own, outside of the workspace:
// they require newer versions of the specification and of gRPC than module csi.
//
//	make test-sanity
//
// Make test-nfs runs them on NFS volumes, with a server in a test kernel.
package sanitytest
