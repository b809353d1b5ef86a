// Package recyclertest is a cluster in memory for tests of recycler.Pod and of what
// embeds it: pods that are created start, scrub the volume that they mount, and end; or
// do what [Config].Fate says. Every call can be made to fail, to hang, or to be done in
// spite of its error.
//
// Time is that of package time, so in a bubble of testing/synctest a test of hours is
// over at once. Nothing is stored, nothing leaves the process.
package recyclertest
