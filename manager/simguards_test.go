package manager

import (
	"os"
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// guards are the code fragments that keep the invariants, each with the code without it.
var guards = []testbed.Guard{
	{"no tear-down before all pods are known", "internal/planning/teardown.go", "if !p.mayTakeDown {", "if false {"},
	{"no release before all pods are known", "internal/planning/release.go", "case !p.mayTakeDown || len", "case len"},
	{"pods with unresolved volumes keep their volumes", "internal/planning/teardown.go", " || p.isKept(key.Pod)", ""},
	{"a volume mounted for a pod with unresolved volumes is not released", "internal/planning/release.go", "case p.isKept(p.Have.LastPod.Pod) && !p.IsRecreated():", "case false:"},
	{"one operation per volume", "internal/planning/plan.go", "case !s.IsBusy(name):", "case true:"},
	{"concurrent operations of a volume are tear-downs only", "internal/planning/teardown.go", "if f.Verb != operation.TearDown {", "if f.Verb != operation.TearDown && false {"},
	{"one operation per volume and pod", "internal/planning/teardown.go", "|| p.isInFlight(key.Pod) {", "{"},
	{"a tear-down changes its own pod's part only", "outcome.go", "if out.Verb != operation.TearDown || now == nil {", "if true {"},
	{"subpaths are unmounted before the tear-down", "internal/execution/teardown.go", "if err := r.Disk.UnmountSubpaths(ctx, r.subpathsToUnmount(ctx, *j)); err != nil {", "if err := error(nil); err != nil {"},
	{"a volume with mounted subpaths is not torn down", "internal/execution/teardown.go", "r.subpathsToUnmount(ctx, *j)); err != nil {", "r.subpathsToUnmount(ctx, *j)); err != nil && false {"},
	{"subpaths are unmounted under all names of the volume", "newjob.go", "return !others[outer] || have", "return have"},
	{"failed operations wait for their backoff", "internal/planning/planner.go", "until.After(p.now)", "false"},
	{"a mount elsewhere does not end a backoff", "internal/mountcheck/check.go", "err == nil && now != a.Where {", "err == nil && now.Path == a.Where.Path {"},
	{"a volume for one pod waits for the other pod", "internal/planning/setup.go", "if other.Pod != key.Pod && (held > own", "if false && (held > own"},
	{"a volume for one pod waits for a reconstructed one of another name", "internal/planning/setup.go", "return p.mayBeUpElsewhere(key)", "return false"},
	{"no device unmount while pods use the volume", "internal/planning/release.go", "|| p.Have.IsInUse(naming.PodKey{}) ||", "||"},
	{"no detach while the device is mounted", "internal/planning/release.go", "case p.Have.Device != actual.Absent:", "case p.Have.Device != actual.Absent && p.Have.Attached == actual.Absent:"},
	{"an uncertain device mount is repeated", "internal/planning/sharedstep.go", "p.Have.Device != actual.Present", "p.Have.Device == actual.Absent"},
	{"an uncertain attachment is repeated", "internal/planning/sharedstep.go", "p.Have.Attached != actual.Present", "p.Have.Attached == actual.Absent"},
	{"a mounted volume is in use", "inuse.go", "p.Have.Device == actual.Absent && p.Have.Attached", "p.Have.Attached"},
	{"an uncertain volume is in use", "inuse.go", "actual.Present && p.MayRelease()", "actual.Present"},
	{"subscribers are called for each change of the volumes in use", "loop.go", "	l.trackInUse(name)\n", ""},
	{"an uncertain set-up is torn down", "internal/planning/teardown.go", "|| pod.State == actual.Absent ||", "|| pod.State != actual.Present ||"},
	{"an uncertain error leaves an uncertain state", "internal/actual/state.go", "case volume.KindOf(err) == volume.Uncertain, ", "case "},
	{"a failed take-down leaves an uncertain state", "internal/actual/state.go", "if err == nil {\n\t\treturn Absent", "if true {\n\t\treturn Absent"},
	{"a record is written for shared volumes", "newjob.go", "j.Traits.Shared() {", "false {"},
	{"a record is removed only if the volume is absent", "internal/execution/runner.go", "case out.After.IsAbsent():", "case true:"},
	{"the record has the device mount path", "internal/execution/runner.go", `(j.Verb == operation.MountDevice || j.Before.Device != actual.Absent) && j.DeviceMountPath == ""`, "j.Before.Device != actual.Absent && false"},
	{"records are restored", "restore.go", "range recs {", "range recs[:0] {"},
	{"pod directories are reconstructed", "restore.go", "r.reconstructInto(ctx, &have, found)", "r.reconstructInto(ctx, &have, found[:0])"},
	{"a reconstructed volume adopts the desired name", "install.go", "renamed = w.adoptName(dir) || renamed", "_ = dir"},
	{"a vanished mount is detected", "internal/mountcheck/check.go", "case !now.Mounted:", "case false:"},
	{"a detached volume becomes uncertain", "attachcheck.go", "\tv.Attached = actual.Uncertain\n\tif", "	if"},
	{"a mount check during an operation is repeated after it", "mountevents.go", "if f.CheckAfter {", "if false {"},
	{"a tear-down wakes the pod that waits for the volume", "outcome.go", "if next, ok := w.want.OnePod.Find(naming.Storage{Plugin: out.PluginName, Name: out.Name}); ok {", "if next, ok := w.want.OnePod.Find(naming.Storage{Plugin: out.PluginName, Name: out.Name}); ok && false {"},
	{"an uncertain volume is not reported as up", "wait.go", "have != nil && have.StateOf(at.Key) == actual.Present", "have != nil && have.StateOf(at.Key) != actual.Absent"},
	{"an uncertain volume is not reported as gone", "wait.go", "StateOf(key) != actual.Absent &&", "StateOf(key) == actual.Present &&"},
	{"a volume being torn down is uncertain", "internal/execution/teardown.go", "v.Pods = v.Pods.With(pod, v.Pods.Get(pod).WithState(actual.Uncertain))\n}", "_, _ = v, pod\n}"},
	{"a volume being detached is uncertain", "internal/execution/detach.go", "if v.Attached == actual.Present {", "if false {"},
	{"an unrecognized volume in another pod blocks the set-up", "internal/planning/leftover.go", "return l.Pod != key.Pod && l.mayBe(id)", "return false"},
	{"a broken record makes a volume uncertain", "newjob.go", "if w.hasBrokenRecord(j.Volume) {", "if false {"},
	{"a failed record update leaves the volume uncertain", "internal/execution/runner.go", "out.After = StateAfter(j.Before, out)\n\t}\n\treturn out", "}\n\treturn out"},
	{"a failed record write prevents the operation", "internal/execution/runner.go", "return r.Disk.Write(*j.Record)", "_ = r.Disk.Write(*j.Record)\n\treturn nil"},
	{"an expansion waits for a set-up in a pod that writes", "internal/planning/expansion.go", "|| !p.isUpForWriter() || p.IsRecreated()", "|| p.IsRecreated()"},
	{"a recreated volume is not expanded", "internal/planning/expansion.go", "|| !p.isUpForWriter() || p.IsRecreated() ||", "|| !p.isUpForWriter() ||"},
	{"a writer does not use a read-only device mount", "internal/planning/sharedstep.go", "case p.Have.DeviceReadOnly && !p.Have.DeviceStaysReadOnly &&", "case false &&"},
	{"a mount for readers is not retried for the writer", "internal/execution/mountdevice.go", "errors.Is(out.Err, operation.ErrMountedForReaders)\n", "errors.Is(nil, operation.ErrMountedForReaders)\n"},
	{"no set-up for a writer on a read-only device mount", "internal/planning/setup.go", " || p.mustWaitForReaders(key) {", " {"},
	{"a read-only device mount is released for a writer", "internal/planning/release.go", " && !p.isForReaders() || p.Have", " || p.Have"},
	{"a read-only device mount is recognized after a restart", "internal/execution/mountdevice.go", "|| mount(&other) != nil {", "|| true {"},
	{"the requested size is that of the writer", "internal/desired/join.go", "if v.Size == nil && w.Volume.Size != nil {", "if false {"},
	{"a recreated volume waits for the old one", "internal/planning/setup.go", "want.PersistentVolume.UID != have.PersistentVolume.UID", "false"},
	{"a device is unmapped from pods before its tear-down", "internal/planning/release.go", "case p.Have.Device != actual.Absent:", "case p.Have.Device != actual.Absent && !p.Have.Traits.Block:"},
	{"no attach before the volume is reported as in use", "internal/planning/sharedstep.go", "|| v == operation.Attach && p.isUnreported()", ""},
	{"a read-only volume mount is passed to the plugin", "internal/populate/populator.go", "podvolume.MounterArgs(pod, v)\n", "podvolume.MounterArgs(pod, v)\nargs.ReadOnly = false\n"},
	{"a name for writing makes the volume writable", "internal/desired/join.go", "both.Args.ReadOnly && other.Args.ReadOnly", "both.Args.ReadOnly || other.Args.ReadOnly"},
	{"a new revision is set up", "internal/planning/setup.go", "|| pod.Revision != p.Revisions.Get(key)", ""},
	{"a panic leaves an uncertain state", "internal/plugincall/panics.go", "volume.AsUncertain(fmt.Errorf(\"a plugin, or the source, panicked: %v\", r))", "volume.AsTransient(fmt.Errorf(\"a plugin panicked: %v\", r))"},
	{"unrecognized volumes are leftovers", "restore.go", "if v.Err != nil {\n\t\t\tleftovers", "if false {\n\t\t\tleftovers"},
	{"a leftover is not gone", "wait.go", "for _, l := range s.leftovers {\n\t\tif _, ok", "for _, l := range s.leftovers[:0] {\n\t\tif _, ok"},
	{"empty directories are removed", "restore.go", "\tr.disk.RemoveEmptyDirs()\n", ""},
	{"a pod keeps the volume of a rebound claim", "internal/populate/existing.go", "return s, p.differsFrom(s, spec)", "return s, false"},
	{"a pod keeps the volume reconstructed under the name", "internal/populate/existing.go", "old, ok = s, true", "_ = s"},
	{"a stale population is not installed", "repopulate.go", "if isStale {", "if isStale && false {"},
	{"one device mount per path", "internal/planning/sharedstep.go", ` || v == operation.MountDevice && p.PlaceOccupant() != ""`, ""},
	{"a free path wakes the volume that waits for it", "outcome.go", "if out.After.Device == actual.Absent {", "if false {"},
	{"a pod being deleted gets no new volume", "internal/populate/populator.go", "if err := p.checkPodEnding(pod, v, spec); err != nil {", "if err := p.checkPodEnding(pod, v, spec); err != nil && false {"},
	{"a queued operation with a later retry is planned again", "loop.go", "case !again.IsZero():\n\t\tl.replanAt", "case false:\n\t\tl.replanAt"},
	{"a changed claim repopulates its pods", "repopulate.go", "for uid := range s.want.Users.Get(ref).Keys() {", "_ = ref\n\t\tfor uid := range s.want.Users.Get(reading.Ref{}).Keys() {"},
	{"a pod is indexed by the objects that it uses", "internal/desired/index.go", "p.Users = p.Users.With(ref, p.Users.Get(ref).With(uid, struct{}{}))", "_ = ref"},
	{"a pod is no longer indexed by other objects", "internal/desired/index.go", "others := p.Users.Get(ref).Without(uid)", "others := p.Users.Get(ref)"},
	{"a change of existing volumes makes the pod stale", "internal/actual/world.go", "w.StalePods = w.StalePods.With(key.Pod, struct{}{})", "_ = key"},
	{"a stale pod with its desired volumes is not repopulated", "repopulate.go", "!s.hasDesiredVolumes(uid)", "false"},
	{"a view and its volume are told apart for a pod being deleted", "internal/populate/protection.go", "podvolume.IsView(s.Dir) == isView", "(podvolume.IsView(s.Dir) == isView || true)"},
	{"stale pods being deleted are repopulated", "repopulate.go", "d.Pod.DeletionTimestamp != nil || d.HasFailed()", "d.HasFailed()"},
	{"stale pods with failed volumes are repopulated", "repopulate.go", "d.Pod.DeletionTimestamp != nil || d.HasFailed()", "d.Pod.DeletionTimestamp != nil"},
	{"resolving a pod plans its existing volumes", "install.go", "range w.have.Dirs.Of(uid) {\n\t\t\tw.dirty", "range w.have.Dirs.Of(uid)[:0] {\n\t\t\tw.dirty"},
	{"resolving a pod plans the volumes mounted for it", "install.go", "for name := range w.have.LastPods.Get(uid).Keys() {\n\t\t\tw.dirty[name] = true", "for name := range w.have.LastPods.Get(uid).Keys() {\n\t\t\t_ = name"},
	{"changed volumes are planned", "install.go", "for _, name := range d.Volumes {\n\t\tw.dirty[name] = true", "for _, name := range d.Volumes {\n\t\t_ = name"},
	{"an unreadable pod is read again", "repopulate.go", "\t\tr.missed.AddPods(uid)\n", ""},
	{"a stale population is computed again", "repopulate.go", "\t\tr.requeueChanges(a)\n\t\treturn", "\t\treturn"},
	{"a moved mount is checked", "internal/actual/mountevents.go", "add(w.Mounts.byID.Get(c.ID), func(mnt ExpectedMount) bool { return mnt.Path != c.Target })", ""},
	{"a late reconstruction is not merged during an operation", "restore.go", "case r.Err == nil && w.schedule.IsBusy(r.Unique): // the next rescan merges the volume", "case false:"},
	{"a mount check older than a change is dropped", "mountcheck.go", "busy || !w.isUnchanged(mnt)", "busy"},
}

// tableGuards are the guards whose absence the tests of few steps find: see tableTests.
var tableGuards = []testbed.Guard{
	{"the backoff of a failed volume wakes the loop", "repopulate.go", "at = retry.Earlier(at, d.Until)", ""},
	{"an old result is read again", "repopulate.go", "if a.isOld {\n\t\tr.requeueChanges(a)", "if false {\n\t\tr.requeueChanges(a)"},
	{"an operation in flight makes its volume uncertain", "loop.go", "\tl.have.Put(op.Volume, execution.StateDuring(j.Before, j))\n", ""},
	{"a set-up in flight has its specification", "internal/execution/setup.go", "v.Spec = v.SpecOr(j.Spec)", "_ = v.SpecOr(j.Spec)"},
	{"a desired directory is reconstructed until its volume is known", "restore.go", `return s.have.Dirs.Get(f.Dir()) != ""`, `return s.have.Dirs.Get(f.Dir()) != "" || s.want.VolumeIn(f.Dir()) != ""`},
	{"a directory of another plugin is reconstructed", "restore.go", `return s.have.Dirs.Get(f.Dir()) != ""`, `return len(s.have.Dirs.Of(f.Pod)) > 0`},
	{"a possible leftover is not released", "internal/planning/release.go", " || p.mayBeUnrecognized():", ":"},
	{"an operation of another plugin does not make a directory known", "restore.go", `return s.have.Dirs.Get(f.Dir()) != ""`, `for o := range s.schedule.All() { if o.Pod.Pod == f.Pod && o.Pod.Name == f.Name { return true } }; return s.have.Dirs.Get(f.Dir()) != ""`},
	{"one volume per pod directory", "internal/planning/setup.go", "return p.IsDirOccupied(key) || p.isHeldByOtherPod(key)", "return p.isHeldByOtherPod(key)"},
	{"a tear-down wakes the volume that waits for the directory", "outcome.go", `out.Operation.Pod.Name}); next != "" {`, `out.Operation.Pod.Name}); next != "" && false {`},
	{"a late reconstruction makes the attachment uncertain", "internal/actual/world.go", "if merged.Traits.Attachable && merged.Attached == Absent {", "if false {"},
	{"a late reconstruction makes the device mount uncertain", "internal/actual/world.go", "if merged.Traits.OnDevice() && merged.Device == Absent {", "if false {"},
	{"a mount check during an operation is dropped", "mountcheck.go", "busy || !w.isUnchanged(mnt)", "!w.isUnchanged(mnt)"},
	{"an unmounted device path is removed from the record", "internal/execution/runner.go", "case (j.Verb == operation.UnmountDevice || j.Verb == operation.Expand) && ", "case j.Verb == operation.Expand && "},
	{"a recorded volume without a path has no device mount", "internal/record/record.go", `if v.AssumeUncertain(); rec.DeviceMountPath == "" {`, "if v.AssumeUncertain(); false {"},
	{"the grown size is recorded", "internal/execution/runner.go", "(j.Verb == operation.UnmountDevice || j.Verb == operation.Expand)", "j.Verb == operation.UnmountDevice"},
	{"the size before an expansion is recorded", "newjob.go", "rec.Size = cmp.Or(rec.Size, j.OldSize)", ""},
	{"an expansion prefers a writable mount", "internal/planning/expansion.go", "!writer.Args.ReadOnly", "true"},
	{"a read-only device mount is not expanded", "internal/planning/expansion.go", "|| p.IsRecreated() || p.Have.DeviceReadOnly {", "|| p.IsRecreated() {"},
	{"an expansion waits for a pod that may write", "internal/planning/expansion.go", "p.Want.IsWriter(key) && p.Have.StateOf(key) == actual.Present", "p.Have.StateOf(key) == actual.Present"},
	{"an unrecognized view may be its volume", "internal/planning/leftover.go", "slices.Contains(id.names, podvolume.ViewedName(filepath.Base(left.Path)))", "slices.Contains(id.names, filepath.Base(left.Path))"},
	{"a recorded size does not hide the claimed size", "internal/actual/volume.go", "case v.Size == nil, v.SizeIsOld, ", "case v.Size == nil, "},
	{"the claimed size is not requested again", "internal/actual/volume.go", "v.SizeIsOld, v.Size.Cmp(*claimed) < 0:", "v.SizeIsOld:"},
	{"a volume of unknown size is not expanded at set-up", "internal/execution/setup.go", "v.Size, v.SizeIsOld = out.OldSize, false", "_ = v.Size"},
	{"an uncertain device mount has its specification", "internal/execution/mountdevice.go", "out.Err == nil || v.Device == actual.Uncertain", "out.Err == nil"},
	{"an uncertain set-up has its specification", "internal/execution/setup.go", "case v.StateOf(out.Operation.Pod) != actual.Absent:\n\t\tv.Spec", "case false:\n\t\tv.Spec"},
	{"a foreign mount below a volume is part of the mount state", "internal/mountcheck/check.go", "table != nil && a.Where.Below != 0 {", "false {"},
	{"a claim being deleted is not for new pods", "internal/populate/claim.go", "err = p.checkDeletion(pod, v, claim)", "_ = claim"},
	{"a claim being deleted is for pods that have its volume", "internal/populate/protection.go", "podspec.HasRun(pod) || p.hadClaim(pod, v) || p.mayBeUp(pod, v, claim.Spec.VolumeName)", "podspec.HasRun(pod) || p.hadClaim(pod, v)"},
	{"a claim being deleted is for pods that had it before", "internal/populate/protection.go", "podspec.HasRun(pod) || p.hadClaim(pod, v) || ", "podspec.HasRun(pod) || "},
	{"a claim being deleted is for pods that have run", "internal/populate/protection.go", "case podspec.HasRun(pod) || ", "case "},
	{"a claim being deleted is for pods that have a view", "internal/populate/protection.go", "podvolume.ViewedName(s.Dir) == name", "podvolume.ViewedName(s.Dir) == name && s.Dir == name"},
	{"a claim being deleted has to be protected", "internal/populate/protection.go", "!slices.Contains(claim.Finalizers, ProtectionFinalizer)", "false"},
	{"a mount above several pods affects all mounts", "internal/actual/mountevents.go", "return places, w.Mounts.Above.Get(c.Target) > 0", "return places, false"},
	{"a mount above a volume affects it", "internal/actual/mountevents.go", `(mnt.Path == c.Target || strings.HasPrefix(mnt.Path, c.Target+"/"))`, "mnt.Path == c.Target"},
	{"a mount over a volume affects it", "internal/actual/mountevents.go", `(mnt.Path == c.Target || strings.HasPrefix(mnt.Path, c.Target+"/"))`, `strings.HasPrefix(mnt.Path, c.Target+"/")`},
	{"a mount over a device mount affects it", "internal/actual/mountevents.go", "add(w.Mounts.at.Get(c.Target), func(mnt ExpectedMount) bool { return mnt.ID != c.ID })", ""},
	{"a mount in a volume affects it", "internal/actual/mountevents.go", "if c.Parent != 0 {", "if false {"},
	{"a mount without a known ID is affected by any event", "internal/actual/mountevents.go", "add(w.Mounts.byID.Get(0), any)", ""},
	{"a volume that is gone leaves no index entries", "internal/actual/mountindex.go", "n := x.Above.Get(dir) - 1", "n := x.Above.Get(dir)"},
	{"a mount during an operation is checked after it", "mountevents.go", "if f.TableEvents != w.tableEvents || f.Attached != 0 && f.Attached != out.Mount {", "if false {"},
	{"a mount replaced during SetUp is set up again", "internal/execution/setup.go", "if isUncertain && out.Mount != 0 && out.Mount != before {", "if isUncertain && out.Mount != 0 && out.Mount != before && false {"},
}

// tableTests selects the tests of few steps, in package manager and in the rooms of the guards.
const tableTests = "^(TestUnresolvedVolumeIsRetried|TestNextOperation|TestPodKeepsRecreatedVolume|TestUnmountedDevicePathIsFree|TestDeletedClaimStaysForItsPods|TestPodOfDeletedClaimStarts|TestPodBeingDeletedGetsNoNewVolume|TestUnusableClaim|TestExpansionOnRequest|TestExpansionPaths|TestExpansionUsesWritablePath|TestLeftoverView|TestViewOfDeletedClaim|TestVolumeWaitsForDirectory|TestLateReconstruction.*|TestLateMountCheckIsDropped|TestUncertainSpec|TestSpecAfterMountDevice|TestForeignMountBelow|TestDesiredDirectoryIsNotKnown|TestKnownDirectory|TestSpecDuringSetUp|TestSizeAtFirstSetUp|TestInFlightVolumeIsNotGone|TestMountEventsTouch|TestKnownSize|TestMountDuringOperationIsChecked|TestReplacedDuringSetUp|TestRemoveEmptyDirs|TestLateClaimDoesNotHideChange)$"

// TestGuardsAreThere: each guard of the lists occurs once in its file.
func TestGuardsAreThere(t *testing.T) {
	testbed.CheckGuards(t, guards)
	testbed.CheckGuards(t, tableGuards)
}

// TestSimulationFindsMissingGuards: without any one of the guards the simulation fails within
// 10,000 seeds, and without any one of tableGuards one of tableTests fails. "make mutants" runs it;
// MUTANTS in the environment selects the guards whose names contain it.
func TestSimulationFindsMissingGuards(t *testing.T) {
	if os.Getenv("VOLUMEKIT_LONG") == "" {
		t.Skip("it compiles the package for each guard: VOLUMEKIT_LONG=1")
	}
	testbed.Mutants(t, testbed.Mutation{
		Guards: guards, Run: "^TestSimulation$", Env: []string{"VOLUMEKIT_SEEDS=10000"}, Says: "replay with VOLUMEKIT_SEED=",
	})
	testbed.Mutants(t, testbed.Mutation{Guards: tableGuards, Run: tableTests})
}
