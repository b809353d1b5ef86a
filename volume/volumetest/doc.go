// Package volumetest tests volume plugins and the programs that use them.
//
// [FakePlugin] has every ability of package volume. A program's tests register it, count its
// calls, and make them slow or fail. It sets volumes up through a mount.Interface, by default a
// kernel in memory, so its tests need no privilege. It is for tests only: it trusts its paths,
// and follows symbolic links in them.
//
// [TestPlugin] tests the contract of volume.VolumePlugin. The author of a plugin runs it on the
// fake kernel for speed, and on the real one, in mounttest.Namespace, for proof:
//
//	func TestContract(t *testing.T) {
//		volumetest.TestPlugin(t, volumetest.Config[*testing.T]{
//			New:  func(t *testing.T, host volume.VolumeHost, m mount.Interface) volume.VolumePlugin { ... },
//			Spec: func(t *testing.T) *volume.Spec { ... },
//		})
//	}
//
// The example DirectoryPlugin is a whole plugin whose volumes are directories with files.
//
// The package imports neither testing nor testify: a program that uses a FakePlugin links
// neither. Config has the type parameter for that reason alone.
package volumetest
