package manager

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// guards are what keeps the invariants, each with what the code is without it.
var guards = []struct{ name, file, with, without string }{
	{"nothing is taken down before all pods are known", "plan.go", "if !p.down {", "if false {"},
	{"nothing is released before all pods are known", "plan.go", "case !p.down || len", "case len"},
	{"pods of which not all is known keep what they have", "plan.go", " || p.keep[key.pod]", ""},
	{"nor released of what is there for them", "plan.go", "case p.keep[p.have.lastPod.pod] && !p.isAnother():", "case false:"},
	{"one operation for each volume", "plan.go", "if s.running[name] {", "if false {"},
	{"what containers have of a volume goes before it", "job.go", "if err := m.disk.unmountSubpaths(ctx, j.operation.pod.pod, j.subpaths); err != nil {", "if err := error(nil); err != nil {"},
	{"and if it does not the volume stays", "job.go", "j.subpaths); err != nil {", "j.subpaths); err != nil && false {"},
	{"by all names that a pod has for it", "jobs.go", "return !others[outer] || have", "return have"},
	{"what failed waits", "plan.go", "until.After(p.now)", "false"},
	{"and does not stop because of a mount elsewhere", "vanish.go", "err == nil && now != a.at {", "err == nil && now.path == a.at.path {"},
	{"a volume of one pod waits for it", "plan.go", "if other != key && (theirs > mine", "if false && (theirs > mine"},
	{"and for what was found under another name", "plan.go", "return p.foundElsewhere(key)", "return false"},
	{"nothing is unmounted below pods", "plan.go", "|| p.have.inUse(podKey{}) ||", "||"},
	{"nothing is detached below its mount", "plan.go", "case p.have.device != absent:", "case p.have.device != absent && p.have.attached == absent:"},
	{"a mount that may be there is not taken for one", "plan.go", "p.have.device != present", "p.have.device == absent"},
	{"an attachment that may be there is not taken for one", "plan.go", "p.have.attached != present", "p.have.attached == absent"},
	{"what is mounted is in use", "snapshot.go", "p.have.device == absent && p.mayRelease()", "p.mayRelease()"},
	{"and what may be, as is not known yet", "snapshot.go", "p.have.device == absent && p.mayRelease()", "p.have.device == absent"},
	{"what may be up is taken down", "plan.go", "|| pod.state == absent ||", "|| pod.state != present ||"},
	{"uncertain stays uncertain", "advance.go", "case volume.KindOf(err) == volume.Uncertain, ", "case "},
	{"what was not taken down is not gone", "advance.go", "if err == nil {\n\t\treturn absent", "if true {\n\t\treturn absent"},
	{"what is done is written down before", "jobs.go", "j.traits.shared() {", "false {"},
	{"and not struck out before it is gone", "job.go", "&& out.after.isNothing()", ""},
	{"where it is mounted is written down", "job.go", `(j.verb == mountDevice || j.verb == unmountDevice) && j.deviceMountPath == ""`, "j.verb == mountDevice && false"},
	{"records are read", "restore.go", "range recs {", "range recs[:0] {"},
	{"directories are read", "restore.go", "l.reconstruct(ctx, have, found)", "l.reconstruct(ctx, have, found[:0])"},
	{"what was found is what is wanted there", "install.go", "renamed = l.adoptIn(dir) || renamed", "_ = dir"},
	{"what has vanished is noticed", "vanish.go", "case !now.mounted:", "case false:"},
	{"also while something is done about the volume", "settle.go", "l.tableChanged || l.flights[out.volume].lookAfter", "l.tableChanged"},
	{"who waits for a directory is told", "settle.go", "if next, ok := l.want.onePod[storage{out.pluginName, out.name}]; ok {", "if next, ok := l.want.onePod[storage{out.pluginName, out.name}]; ok && false {"},
	{"what is under way may be there", "loop.go", "\tl.have.put(op.volume, j.before.during(op, j.pod))\n", ""},
	{"what is uncertain is not said to be up", "wait.go", "have != nil && have.stateOf(at.key) == present", "have != nil && have.stateOf(at.key) != absent"},
	{"what is uncertain is not said to be gone", "wait.go", "stateOf(key) != absent &&", "stateOf(key) == present &&"},
	{"what comes down is not said to be up", "advance.go", "case op.verb == tearDown:", "case false:"},
	{"nor to be attached", "advance.go", "case op.verb == detach && v.attached == present:", "case false:"},
	{"what may be in another pod and is not understood is not set up", "plan.go", "dir.name == key.name && dir.pod != key.pod", "false"},
	{"what is wanted is not taken for what is known", "restore.go", `if l.have.dirs.get(f.dir()) != "" {`, `if l.have.dirs.get(f.dir()) != "" || l.want.places.in(f.dir()) != "" {`},
	{"a record that is torn may tell of any volume", "jobs.go", "if w.isUnread(j.volume) {", "if false {"},
	{"what cannot be struck out is done again", "job.go", "out.after = advance(j.before, out)\n\t\t}", "}"},
	{"nothing is done without a record", "job.go", "return m.disk.write(*j.record)", "_ = m.disk.write(*j.record)\n\treturn nil"},
	{"a volume grows once it is up", "plan.go", "|| !p.isUp() || p.isAnother()", "|| p.isAnother()"},
	{"and not to the size of another of its name", "plan.go", "|| !p.isUp() || p.isAnother() ||", "|| !p.isUp() ||"},
	{"nor while it can only be read", "plan.go", "|| p.isAnother() || p.have.deviceReadOnly {", "|| p.isAnother() {"},
	{"who writes is not told that what is mounted to be read is up", "plan.go", "case p.have.deviceReadOnly && !p.have.deviceStaysSo &&", "case false &&"},
	{"nor is it tried again and again", "advance.go", "errors.Is(out.err, errForReaders)\n", "false\n"},
	{"nor set up", "plan.go", " || p.mustWaitForReaders(key) {", " {"},
	{"what is mounted to be read is unmounted for one who writes", "plan.go", " && !p.isForReaders() || p.have", " || p.have"},
	{"and found after a restart", "device.go", "|| mount(&other) != nil {", "|| true {"},
	{"also if the first pod only reads it", "populate.go", "if v.size == nil && w.volume.size != nil {", "if false {"},
	{"another volume of the name waits", "plan.go", "want.PersistentVolume.UID != have.PersistentVolume.UID", "false"},
	{"a device is unmapped from pods first", "plan.go", "case p.have.device != absent:", "case p.have.device != absent && !p.have.traits.block:"},
	{"nothing is attached before it is reported", "plan.go", "|| v == attach && p.isUnreported()", ""},
	{"a container's read-only is honoured", "populate.go", "util.MounterArgs(pod, v)\n", "util.MounterArgs(pod, v)\nargs.ReadOnly = false\n"},
	{"and not for a name that is written to", "populate.go", "both.args.ReadOnly && other.args.ReadOnly", "both.args.ReadOnly || other.args.ReadOnly"},
	{"what follows something is set up again", "plan.go", "|| pod.revision != p.revisions[key]", ""},
	{"a panic leaves nothing certain", "panic.go", "*err = fmt.Errorf(\"%w: a plugin, or the source, panicked: %v\", volume.ErrUncertain, r)", "*err = fmt.Errorf(\"%w: a plugin panicked: %v\", volume.ErrTransient, r)"},
	{"what others have left is kept", "restore.go", "if r.err != nil {\n\t\t\tleftovers", "if false {\n\t\t\tleftovers"},
	{"and counts as there", "wait.go", "for _, l := range m.leftovers {\n\t\tif _, ok", "for _, l := range m.leftovers[:0] {\n\t\tif _, ok"},
	{"empty directories go", "restore.go", "\tl.disk.sweep()\n", ""},
	{"what is due later is not forgotten in the line", "loop.go", "} else if !again.IsZero() {\n\t\t\t\tl.later", "} else if false {\n\t\t\t\tl.later"},
}

// TestSimulationFindsMissingGuards: without any one of the guards the simulation fails
// within 10,000 seeds.
func TestSimulationFindsMissingGuards(t *testing.T) {
	if os.Getenv("VOLUMEKIT_LONG") == "" {
		t.Skip("it compiles the package for each guard: VOLUMEKIT_LONG=1")
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	for _, guard := range guards {
		t.Run(strings.ReplaceAll(guard.name, " ", "_"), func(t *testing.T) {
			file := filepath.Join(here, guard.file)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(text), guard.with), "the guard is not there, or not alone")
			without := filepath.Join(t.TempDir(), guard.file)
			require.NoError(t, os.WriteFile(without, []byte(strings.Replace(string(text), guard.with, guard.without, 1)), 0o600))
			overlay := filepath.Join(t.TempDir(), "overlay.json")
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: without}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(overlay, replace, 0o600))

			cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-overlay", overlay, "-run", "^TestSimulation$", ".")
			cmd.Env = append(os.Environ(), "VOLUMEKIT_SEEDS=10000", "VOLUMEKIT_LONG=")
			output, err := cmd.CombinedOutput()
			require.Error(t, err, "the simulation does not miss it")
			require.Contains(t, string(output), "replay with VOLUMEKIT_SEED=", "it failed otherwise")
			_, seed, _ := strings.Cut(string(output), "replay with ")
			seed, _, _ = strings.Cut(seed, ";")
			t.Log(seed)
		})
	}
}
