// Package progress reports the progress of steps that may take long: formatting, checking and growing a
// file system, changing owners, deleting content, archiving a volume, downloads.
//
// A caller that wants reports puts a receiver into the context of the call, as package
// net/http/httptrace does:
//
//	ctx = progress.With(ctx, progress.Sparse(func(r progress.Report) { log.Print(r) }))
//	err := disks.FormatAndMount(ctx, request) // logs "format /dev/vdb: 1s", "format /dev/vdb: 10s", ...
//
// The context reaches every step that the call makes in this process, also through plugins, the manager,
// the controllers and the servers of csi/driver and docker. An author of a plugin reports a step of its own
// with [Begin].
//
// A step is reported after a second and then each second; a shorter step not at all. Without a
// receiver a step costs a lookup in its context; each receiver costs a timer, and a goroutine after the first
// second.
package progress
