package mount

import (
	"fmt"
	"log/slog"
	"strings"
)

// Describe returns one line about the mount for people to read, in logs and
// messages: "nfs4 server:/export on /mnt (ro,nosuid,nodev), mount 57 in 23". Names
// that would confuse a reader are quoted, long ones shortened. The options of the
// file system are left out: some file systems show their secrets there.
func (i Info) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", quote(i.FSType), describeSource(i))
	if i.Root != "/" {
		fmt.Fprintf(&b, "[%s]", quote(i.Root))
	}
	if i.Deleted {
		b.WriteString(" (deleted)")
	}
	fmt.Fprintf(&b, " on %s (%v), mount %d in %d", quote(i.Mountpoint), i.Flags, i.ID, i.Parent)
	if len(i.Tags) > 0 {
		fmt.Fprintf(&b, ", %s", strings.Join(i.Tags, " "))
	}
	return b.String()
}

func describeSource(i Info) string {
	if i.Source == "" {
		return `""`
	}
	return quote(i.Source)
}

// LogValue implements [slog.LogValuer]: what Describe says, as attributes.
func (i Info) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("id", i.ID),
		slog.Int("parent", i.Parent),
		slog.String("device", fmt.Sprintf("%d:%d", i.Major, i.Minor)),
		slog.String("type", shorten(i.FSType)),
		slog.String("source", shorten(i.Source)),
		slog.String("root", shorten(i.Root)),
		slog.Bool("deleted", i.Deleted),
		slog.String("mountpoint", shorten(i.Mountpoint)),
		slog.String("flags", i.Flags.String()),
		slog.Any("propagation", i.Tags),
	)
}
