// Package recyclertest is a cluster in memory for tests of recycler.Pod and of programs that
// embed it: created pods start, scrub the volume that they mount, and end; or follow
// [Config].Fate. Every call can be made to fail, to hang, or to take effect in spite of its
// error.
//
// Time is that of package time, so in a bubble of testing/synctest a test of hours ends at
// once. The cluster uses no files and no network.
package recyclertest
