package main

import (
	"os"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
	peer "k8s.io/mount-utils"
)

// measureList lists the mount table. The floor reads its text without parsing it.
func measureList(b *bench) error {
	n, err := newNode(b.dir)
	if err != nil {
		return err
	}
	var ours []mount.Info
	var theirs []peer.MountPoint
	return b.measureInCrowds(n, b.mounts, trial{
		work: "list the mount table, N mounts",
		ours: side{
			up: func() (err error) {
				ours, err = n.ours.List(b.ctx)
				return err
			},
			seen: func() (string, error) {
				return joined(ours, func(i mount.Info) string { return i.Mountpoint }), nil
			},
		},
		peer: side{
			up: func() (err error) {
				theirs, err = n.peer.List()
				return err
			},
			seen: func() (string, error) {
				return joined(theirs, func(p peer.MountPoint) string { return p.Path }), nil
			},
		},
		floor: side{up: func() error { return rawList("") }},
	})
}

// rawList reads the mount table.
func rawList(string) error {
	_, err := os.ReadFile("/proc/thread-self/mountinfo")
	return err
}

// joined returns all names, sorted.
func joined[T any](all []T, name func(T) string) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = name(one)
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}
