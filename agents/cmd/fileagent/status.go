package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/screen"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/internal/rootlock"
	"github.com/volumekit/volumekit/manager/manifests"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// printStatus reads the disk and the mount table, which may be that of an agent in a
// namespace of its own. It accesses no mounted file system.
func printStatus(out io.Writer, o options) error {
	names, err := namesOf(o)
	if err != nil {
		return err
	}
	pid, mounts, err := mountsOfHolder(o.root)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("-root %s: no agent has run on this root", o.root)
	}
	if err != nil {
		return err
	}
	says := "no agent is running"
	if pid != 0 {
		says = fmt.Sprintf("the agent is process %d", pid)
	}
	_, _ = fmt.Fprintf(out, "Below %s (%s):\n", o.root, says)
	return printMounts(out, o.root, mounts, names)
}

// mountsOfHolder returns the agent on a root, if any, and its mounts. A process that is
// exiting shows no mounts any more, and soon no lock.
func mountsOfHolder(root string) (pid int, mounts map[string]string, err error) {
	const attempts, pause = 40, 50 * time.Millisecond
	for range attempts {
		if pid, err = rootlock.Holder(root); err != nil {
			return 0, nil, err
		}
		if mounts, err = mountsOf(pid); err == nil {
			return pid, mounts, nil
		}
		time.Sleep(pause)
	}
	return 0, nil, fmt.Errorf("read the mounts of process %d: %w", pid, err)
}

// namesOf returns the names of the pods in the manifests, if those are known.
func namesOf(o options) (map[types.UID]string, error) {
	if o.manifests == "" {
		return map[types.UID]string{}, nil
	}
	host, err := newHost(context.Background(), o)
	if err != nil {
		return nil, err
	}
	source, err := manifests.New(context.Background(), manifests.Config{Dir: o.manifests, Node: host.NodeName()})
	if err != nil {
		return nil, err
	}
	return screen.PodNames(context.Background(), source), nil
}

// showMounts is printStatus for the agent itself.
func (a *agent) showMounts() error {
	mounts, err := mountsOf(0)
	if err != nil {
		return err
	}
	return printMounts(a.stdout, a.root, mounts, screen.PodNames(context.Background(), a.source))
}

func printMounts(out io.Writer, root string, mounts map[string]string, names map[types.UID]string) error {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	var rows []string
	hasVolume := map[string]bool{}
	dirs, err := volumeDirs(root)
	for _, dir := range dirs {
		parts := strings.Split(filepath.ToSlash(dir), "/")
		pod, plugin := parts[1], parts[3]
		hasVolume[pod] = true
		if name, err := volume.UnescapeQualifiedName(plugin); err == nil {
			plugin = name
		}
		what, ok := mounts[filepath.ToSlash(filepath.Join(root, dir))]
		switch {
		case parts[2] == "volumeDevices":
			what = "no, a device"
		case !ok:
			what = "no, a directory"
		}
		if isContent(plugin) {
			what += screen.ReadOnly
		}
		pod = cmp.Or(names[types.UID(pod)], pod)
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\n", cli.OneLine(pod), cli.OneLine(parts[4]), cli.OneLine(plugin), cli.OneLine(what)))
	}
	rests, failed := fs.Glob(os.DirFS(root), "pods/*/volume-subpaths/*")
	err = errors.Join(err, failed)
	for _, dir := range rests {
		parts := strings.Split(dir, "/")
		if pod := parts[1]; !hasVolume[pod] {
			pod = cmp.Or(names[types.UID(pod)], pod)
			rows = append(rows, fmt.Sprintf("%s\t%s\t%s\tleft alone: the pod has no volume\n", cli.OneLine(pod), cli.OneLine(parts[3]), parts[2]))
		}
	}
	slices.Sort(rows)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "POD\tVOLUME\tPLUGIN\tMOUNTED\n"+strings.Join(rows, ""))
	return errors.Join(err, w.Flush())
}

// isContent reports whether the plugin's volumes are read-only for containers, though their
// mounts are writable.
func isContent(plugin string) bool {
	return slices.Contains([]string{content.ConfigMapPluginName, content.SecretPluginName,
		content.DownwardAPIPluginName, content.ProjectedPluginName}, plugin)
}

// volumeDirs returns the directories below root with the layout of volumes. The root's own
// name may contain any characters.
func volumeDirs(root string) (all []string, err error) {
	for _, kind := range []string{"volumes", "volumeDevices"} {
		found, failed := fs.Glob(os.DirFS(root), "pods/*/"+kind+"/*/*")
		all, err = append(all, found...), errors.Join(err, failed)
	}
	return all, err
}

// mountsOf returns the mounts in the namespace of a process, 0 for this one, by mount
// point.
func mountsOf(pid int) (map[string]string, error) {
	process := "self"
	if pid != 0 {
		process = strconv.Itoa(pid)
	}
	text, err := os.ReadFile(filepath.Join("/proc", process, "mountinfo"))
	mounts := map[string]string{}
	for line := range strings.Lines(string(text)) {
		ours, theirs, _ := strings.Cut(line, " - ")
		fields, last := strings.Fields(ours), strings.Fields(theirs)
		if len(fields) < 6 || len(last) == 0 {
			continue
		}
		mode, _, _ := strings.Cut(fields[5], ",")
		mounts[unescape(fields[4])] = fmt.Sprintf("%s, %s of %s", mode, last[0], unescape(fields[3]))
	}
	return mounts, err
}

// unescape reverses the kernel's octal escapes.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}
