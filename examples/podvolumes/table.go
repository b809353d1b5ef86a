package main

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/volumekit/volumekit/mount"
)

// table shows the volumes as the mount table has them.
func (j *job) table(mounts mount.Table) string {
	pod := j.pod.pods[0].object
	var b strings.Builder
	fmt.Fprintf(&b, "Pod %s/%s, below %s:\n", namespaceOf(pod), pod.Name, plain(string(j.base)))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VOLUME\tPLUGIN\tMODE\tPATH\tMOUNTED FROM")
	for _, v := range j.volumes {
		mode, from := describe(mounts, j.base, v.mounter.GetPath())
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", v.name, v.plugin.GetPluginName(), mode, j.base.short(v.mounter.GetPath()), from)
	}
	_ = w.Flush() // into memory
	return b.String()
}

// describe says what is mounted at a path: how, and from where.
func describe(mounts mount.Table, b base, at string) (mode, from string) {
	info, ok := mounts.At(filepath.ToSlash(at))
	if !ok {
		return "rw", "a directory of its own"
	}
	mode, _, _ = strings.Cut(info.Flags.String(), ",")
	if info.FSType == "tmpfs" && info.Root == "/" {
		return mode, "memory (tmpfs)"
	}
	origin := path.Join("?", info.Root)
	if origins := mounts.Origins(filepath.ToSlash(at)); len(origins) > 0 {
		origin = b.short(origins[0])
	}
	return mode, fmt.Sprintf("%s (%s on %s)", origin, plain(info.FSType), plain(info.Source))
}

// short returns a path as it is seen from the base.
func (b base) short(name string) string {
	rest, ok := strings.CutPrefix(filepath.ToSlash(name), filepath.ToSlash(string(b))+"/")
	if !ok {
		rest = name
	}
	return plain(rest)
}
