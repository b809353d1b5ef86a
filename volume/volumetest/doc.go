// Package volumetest tests volume plugins and the programs that use them.
//
// [FakePlugin] has every ability that package volume knows. A program's tests
// register it, count its calls, and make them slow or fail. It brings volumes up
// through a mount.Interface, by default a kernel in memory, so its tests need no
// privilege. It is for tests only: it trusts the paths that it is given, and
// takes no care of symbolic links on the way.
//
// [TestPlugin] is the contract of volume.VolumePlugin as tests. The author of a
// plugin runs it on the fake kernel for speed, and on the real one, in
// mounttest.Namespace, for proof.
package volumetest
