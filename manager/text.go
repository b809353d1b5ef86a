package manager

import (
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
)

// String returns the event in one line: its type and reason, the pod as NAMESPACE/NAME or by its UID, the
// volume, and the message. It contains no secret.
func (e Event) String() string {
	pod := string(e.PodUID)
	if e.Pod != nil && e.Pod.Name != "" {
		pod = e.Pod.Namespace + "/" + e.Pod.Name
	}
	volume := e.Volume
	if volume == "" {
		volume = string(e.Unique)
	}
	return describe(e.Message, e.Type, e.Reason, pod, volume)
}

// String returns the volume in one line: its name in the pod, its plugin, its path, and the access. It contains
// no secret.
func (v MountedVolume) String() string {
	access := ""
	if v.Block {
		access = "block device"
	}
	if v.ReadOnly {
		access = strings.TrimPrefix(access+", read-only", ", ")
	}
	return describe(access, v.Name, v.Plugin, v.Path)
}

// String returns the leftover in one line: its path, the pod by its UID and the plugin if known, and why it is
// unrecognized.
func (l Leftover) String() string {
	why := ""
	if l.Err != nil {
		why = l.Err.Error()
	}
	return describe(why, l.Path, string(l.Pod), l.Plugin)
}

// describe returns one line of text about the names that are not empty. Long names are shortened.
func describe(says string, names ...string) string {
	var known []string
	for _, name := range names {
		if name != "" {
			known = append(known, name)
		}
	}
	text := brief.Text(strings.Join(known, " "))
	if says != "" {
		text += ": " + brief.Text(says)
	}
	return oneline.Of(strings.TrimPrefix(text, ": "))
}
