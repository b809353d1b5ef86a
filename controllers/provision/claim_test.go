package provision

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	testRules = rules{
		volumeFinalizer: VolumeFinalizer,
		names:           []string{"example.com/p", "example.com/old"}, guardsClaims: true, guardsVolumes: true,
		provisionPauses: pauseRule{first: time.Second, most: time.Minute, threshold: 3},
		infeasible:      pauseRule{first: time.Hour, most: time.Hour},
		markWait:        time.Minute,
	}
	deletedAt = metav1.Unix(1000, 0)
	now       = time.Unix(2000, 0)
)

// viewOf returns the view of a claim that is ready to be guarded, changed by changes.
func viewOf(changes ...func(*claimView)) claimView {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "1", Name: "a", Annotations: map[string]string{ProvisionerAnnotation: "example.com/p"}}}
	claim.Spec.StorageClassName = new(string)
	v := claimView{rules: testRules, claim: claim, class: &storagev1.StorageClass{Provisioner: "example.com/p"}, role: ready}
	for _, change := range changes {
		change(&v)
	}
	v.attempt.claim = claim
	return v
}

func guarded(v *claimView)  { v.claim.Finalizers = []string{ClaimFinalizer} }
func deleted(v *claimView)  { v.claim.DeletionTimestamp, v.role = &deletedAt, waiting }
func gone(v *claimView)     { v.claim, v.role = nil, foreign }
func possible(v *claimView) { v.attempt.isOurs, v.attempt.storage = true, storagePossible }
func absent(v *claimView)   { v.attempt.isOurs, v.attempt.storage = true, storageAbsent }
func notOurs(v *claimView)  { v.role = foreign }
func waits(v *claimView)    { v.role = waiting }
func described(v *claimView) {
	possible(v)
	v.attempt.described = &v1.PersistentVolume{}
}
func refused(v *claimView)   { v.attempt.refusal = errors.New("refused") }
func unguarded(v *claimView) { v.rules.guardsClaims = false }
func noClass(v *claimView)   { v.claim.Spec.StorageClassName = nil }
func paused(v *claimView) {
	v.attempt.retry = retry{failures: 1, until: now.Add(time.Minute), inputs: v.inputs()}
}
func gaveUp(v *claimView) {
	v.attempt.retry = retry{failures: 3, gaveUp: true, inputs: v.inputs()}
}
func ignored(v *claimView) { gaveUp(v); v.attempt.isIgnored = true }
func unfit(v *claimView) {
	v.claim.Annotations[SelectedNodeAnnotation] = "n"
	v.attempt.unfitNode = "n"
}
func changed(v *claimView) { v.class.ResourceVersion = "2" }

func stored(v *claimView) {
	v.volume = &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{UID: "1"}}}
}
func begun(v *claimView) {
	v.claim.Annotations[DiscardAnnotation] = discardBegun + "1"
	v.attempt.markedSince = now
}
func expired(v *claimView)        { v.attempt.markedSince = now.Add(-time.Minute) }
func ours(v *claimView)           { v.attempt.ownMark = markOf(v.claim) }
func ended(v *claimView)          { v.claim.Annotations[DiscardAnnotation] = discardEnded + "1" }
func restored(v *claimView)       { v.attempt.mark = markOf(v.claim) }
func ends(v *claimView)           { v.attempt.endsDiscard = true }
func covers(v *claimView)         { v.attempt.object = objectCovers }
func late(v *claimView)           { v.attempt.object = objectIsLate }
func volumeReleased(v *claimView) { v.volume.Status.Phase = v1.VolumeReleased }
func volumeDeleted(v *claimView)  { v.volume.DeletionTimestamp = &deletedAt }
func taken(v *claimView) {
	v.volume = &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{UID: "2"}}}
}

func TestDecideClaim(t *testing.T) {
	type changes = []func(*claimView)
	tests := map[string]struct {
		changes changes
		want    claimStep
		wait    time.Duration
	}{
		"new":                                               {nil, claimGuard, 0},
		"new, without guards":                               {changes{unguarded}, claimProvision, 0},
		"new, without guards or a class":                    {changes{unguarded, noClass}, claimGuard, 0},
		"of another program":                                {changes{notOurs}, claimForget, 0},
		"of another program, with a guard":                  {changes{notOurs, guarded}, claimForget, 0},
		"waits for its node":                                {changes{waits}, claimForget, 0},
		"deleted before the guard":                          {changes{deleted}, claimForget, 0},
		"guarded by an earlier run":                         {changes{guarded}, claimConfirm, 0},
		"guarded by an earlier run, deleted":                {changes{guarded, deleted}, claimConfirm, 0},
		"guarded by this run":                               {changes{guarded, absent}, claimProvision, 0},
		"guarded by this run, deleted":                      {changes{guarded, absent, deleted}, claimRelease, 0},
		"guarded by this run, not ours any more":            {changes{guarded, absent, notOurs}, claimRelease, 0},
		"possible":                                          {changes{guarded, possible}, claimProvision, 0},
		"possible, paused":                                  {changes{guarded, possible, paused}, claimWait, time.Minute},
		"possible, deleted":                                 {changes{guarded, possible, deleted}, claimProvision, 0},
		"possible, not ours any more":                       {changes{guarded, possible, notOurs}, claimProvision, 0},
		"possible, gone":                                    {changes{possible, gone}, claimProvision, 0},
		"described":                                         {changes{guarded, described}, claimStore, 0},
		"described, deleted":                                {changes{guarded, described, deleted}, claimStore, 0},
		"described, gone":                                   {changes{described, gone}, claimStore, 0},
		"described, refused":                                {changes{guarded, described, refused}, claimDiscard, 0},
		"described, refused, paused":                        {changes{guarded, described, refused, paused}, claimWait, time.Minute},
		"stored":                                            {changes{guarded, possible, stored, covers}, claimRelease, 0},
		"stored, the object is unknown":                     {changes{guarded, possible, stored}, claimFind, 0},
		"stored, the object is unknown, gone":               {changes{possible, stored, gone, volumeReleased}, claimFind, 0},
		"stored, the object is late":                        {changes{possible, stored, late, gone, volumeReleased}, claimWait, 0},
		"the late object has ended":                         {changes{possible, late, gone}, claimProvision, 0},
		"stored, the claim is deleted, the volume released": {changes{guarded, possible, stored, covers, deleted, volumeReleased}, claimRelease, 0},
		"stored, gone, the volume is released":              {changes{possible, stored, covers, gone, volumeReleased}, claimForget, 0},
		"stored, the volume is deleted":                     {changes{guarded, possible, stored, covers, volumeDeleted}, claimRelease, 0},
		"stored by an earlier run":                          {changes{guarded, stored}, claimRelease, 0},
		"stored, released":                                  {changes{possible, stored, covers}, claimForget, 0},
		"the name is taken":                                 {changes{guarded, absent, taken}, claimProvision, 0}, // fails before the call
		"the name is taken, deleted":                        {changes{guarded, possible, taken, deleted}, claimRelease, 0},
		"absent, paused":                                    {changes{guarded, absent, paused}, claimWait, time.Minute},
		"absent, paused, another class":                     {changes{guarded, absent, paused, changed}, claimProvision, 0},
		"gave up":                                           {changes{guarded, absent, gaveUp}, claimWait, 0},
		"gave up, another class":                            {changes{guarded, absent, gaveUp, changed}, claimProvision, 0},
		"gave up, deleted":                                  {changes{guarded, absent, gaveUp, deleted}, claimRelease, 0},
		"ignored":                                           {changes{guarded, absent, ignored}, claimRelease, 0},
		"ignored, released":                                 {changes{absent, ignored}, claimWait, 0},
		"ignored, released, another class":                  {changes{absent, ignored, changed}, claimGuard, 0},
		"ignored, gone":                                     {changes{absent, ignored, gone}, claimForget, 0},
		"the node is unfit":                                 {changes{guarded, absent, unfit}, claimReschedule, 0},
		"the node is unfit, possible":                       {changes{guarded, possible, unfit}, claimProvision, 0},
		"the discard ends":                                  {changes{guarded, absent, begun, ours, ends}, claimMark, 0},
		"another discard has begun":                         {changes{guarded, described, begun}, claimWait, time.Minute},
		"another discard has begun, refused":                {changes{guarded, described, refused, begun}, claimWait, time.Minute},
		"the own discard has begun":                         {changes{guarded, described, refused, begun, ours}, claimDiscard, 0},
		"another discard has begun, too long ago":           {changes{guarded, described, begun, expired}, claimProvision, 0},
		"another discard has ended":                         {changes{guarded, described, ended}, claimProvision, 0},
		"another discard has ended before the call":         {changes{guarded, described, ended, restored}, claimStore, 0},
		"stored, another discard has begun":                 {changes{guarded, stored, begun}, claimWait, time.Minute},
		"stored, another discard has begun, too long ago":   {changes{guarded, stored, begun, expired}, claimProvision, 0},
		"stored, another discard has ended":                 {changes{guarded, possible, stored, covers, ended}, claimProvision, 0},
		"stored, another discard has ended, paused":         {changes{guarded, stored, ended, paused}, claimWait, time.Minute},
		"stored, another discard has ended, not ours":       {changes{guarded, stored, ended, notOurs}, claimRelease, 0},
		"stored, discarded, deleted, paused":                {changes{guarded, stored, ended, deleted, paused}, claimRelease, 0},
		"stored, marked by a tenant":                        {changes{stored, ended}, claimForget, 0},
		"stored, marked by a tenant as begun":               {changes{stored, begun}, claimForget, 0},
		"stored, provisioned again":                         {changes{possible, stored, covers, ended, restored}, claimRelease, 0},
		"absent, gone":                                      {changes{absent, gone}, claimForget, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			step, wait := decideClaim(viewOf(test.changes...), now)
			require.Equal(t, test.want, step)
			require.Equal(t, test.wait, wait)
		})
	}
}

func TestRoles(t *testing.T) {
	consumer := storagev1.VolumeBindingWaitForFirstConsumer
	tests := map[string]struct {
		claim func(*v1.PersistentVolumeClaim)
		class func(*storagev1.StorageClass)
		want  role
	}{
		"ready":                {nil, nil, ready},
		"no annotation":        {func(c *v1.PersistentVolumeClaim) { c.Annotations = nil }, nil, foreign},
		"another provisioner":  {func(c *v1.PersistentVolumeClaim) { c.Annotations[ProvisionerAnnotation] = "x" }, nil, foreign},
		"another name of ours": {func(c *v1.PersistentVolumeClaim) { c.Annotations[ProvisionerAnnotation] = "example.com/old" }, nil, ready},
		"the beta annotation": {func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{BetaProvisionerAnnotation: "example.com/p"}
		}, nil, ready},
		"the annotation comes first": {func(c *v1.PersistentVolumeClaim) {
			c.Annotations[ProvisionerAnnotation] = "x"
			c.Annotations[BetaProvisionerAnnotation] = "example.com/p"
		}, nil, foreign},
		"names a volume":              {func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }, nil, waiting},
		"is being deleted":            {func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &deletedAt }, nil, waiting},
		"a class of another":          {nil, func(c *storagev1.StorageClass) { c.Provisioner = "x" }, foreign},
		"a class without provisioner": {nil, func(c *storagev1.StorageClass) { c.Provisioner = noProvisioner }, foreign},
		"no node":                     {nil, func(c *storagev1.StorageClass) { c.VolumeBindingMode = &consumer }, waiting},
		"a node":                      {func(c *v1.PersistentVolumeClaim) { c.Annotations[SelectedNodeAnnotation] = "n" }, func(c *storagev1.StorageClass) { c.VolumeBindingMode = &consumer }, ready},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := viewOf()
			if test.claim != nil {
				test.claim(v.claim)
			}
			if test.class != nil {
				test.class(v.class)
			}
			require.Equal(t, test.want, testRules.roleFor(v.claim, v.class))
		})
	}
	require.Equal(t, waiting, testRules.roleFor(viewOf().claim, nil), "a missing class")
	require.Equal(t, foreign, testRules.roleFor(nil, nil))
}

func TestOwners(t *testing.T) {
	annotated := func(key, value string) *v1.PersistentVolume {
		return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
	}
	static := &v1.PersistentVolume{}
	static.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "example.com/p"}
	migrated := annotated(ProvisionedByAnnotation, "example.com/old")
	migrated.Annotations[MigratedToAnnotation] = "another"
	other := annotated(ProvisionedByAnnotation, "another")
	other.Spec.CSI = static.Spec.CSI
	for pv, want := range map[*v1.PersistentVolume]bool{
		annotated(ProvisionedByAnnotation, "example.com/p"):   true,
		annotated(ProvisionedByAnnotation, "example.com/old"): true,
		annotated(ProvisionedByAnnotation, "another"):         false,
		annotated(MigratedToAnnotation, "example.com/p"):      true,
		migrated: false,
		static:   true,
		other:    false,
		{}:       false,
	} {
		require.Equal(t, want, testRules.owns(pv), pv.String())
	}
}

// TestOutcomes: the error of a call determines whether storage is possible, and the next attempt.
func TestOutcomes(t *testing.T) {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	failure := errors.New("fails")
	ignoredError := &volume.IgnoredError{Reason: "x"}
	tests := map[string]struct {
		before storageState
		o      outcome
		after  storageState
		want   claimAttempt // without the retry
		pause  time.Duration
	}{
		"final":                     {storagePossible, outcome{err: failure, called: true}, storageAbsent, claimAttempt{}, time.Second},
		"final, from before":        {storagePossible, outcome{err: failure}, storagePossible, claimAttempt{}, time.Second},
		"transient":                 {storageAbsent, outcome{err: volume.AsTransient(failure), called: true}, storageAbsent, claimAttempt{}, time.Second},
		"transient after uncertain": {storagePossible, outcome{err: volume.AsTransient(failure), called: true}, storagePossible, claimAttempt{}, time.Second},
		"uncertain":                 {storageAbsent, outcome{err: volume.AsUncertain(failure), called: true}, storagePossible, claimAttempt{isOpen: true}, time.Second},
		"infeasible":                {storageAbsent, outcome{err: errors.Join(failure, volume.ErrInfeasible), called: true}, storageAbsent, claimAttempt{}, time.Hour},
		"infeasible, uncertain":     {storageAbsent, outcome{err: volume.AsUncertain(volume.ErrInfeasible), called: true}, storagePossible, claimAttempt{isOpen: true}, time.Second},
		"reschedule":                {storageAbsent, outcome{err: volume.ErrReschedule, called: true, options: Options{SelectedNode: node}}, storageAbsent, claimAttempt{unfitNode: "n"}, time.Second},
		"reschedule, uncertain":     {storageAbsent, outcome{err: volume.AsUncertain(volume.ErrReschedule), called: true, options: Options{SelectedNode: node}}, storagePossible, claimAttempt{isOpen: true}, time.Second},
		"reschedule without a node": {storageAbsent, outcome{err: volume.ErrReschedule, called: true}, storageAbsent, claimAttempt{}, time.Second},
		"ignored":                   {storageAbsent, outcome{err: ignoredError, called: true}, storageAbsent, claimAttempt{isIgnored: true}, time.Second},
		"ignored after uncertain":   {storagePossible, outcome{err: ignoredError, called: true}, storageAbsent, claimAttempt{isIgnored: true}, time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := claimAttempt{storage: test.before}
			require.Equal(t, !test.want.isIgnored, a.record(test.o, now, testRules))
			require.Equal(t, test.after, a.storage)
			require.Equal(t, test.pause, a.retry.until.Sub(now))
			require.Equal(t, test.after == storagePossible && test.before == storageAbsent, a.options != nil)
			a.retry, a.storage, a.options = retry{}, storageUnknown, nil
			require.Equal(t, test.want, a)
		})
	}
}

// TestThresholds: after a number of failures the attempts end, but not while storage is possible.
func TestThresholds(t *testing.T) {
	failed := outcome{err: errors.New("fails"), called: true, inputs: "i"}
	a := claimAttempt{storage: storageAbsent}
	for n := range 3 {
		require.Equal(t, n == 0, a.record(failed, now, testRules), "the same text is announced once")
		require.Equal(t, n == 2, a.retry.gaveUp)
	}
	_, isPaused := a.retry.pause(now.Add(time.Hour*24), "i")
	require.True(t, isPaused)
	_, isPaused = a.retry.pause(now, "other")
	require.False(t, isPaused)
	a.record(outcome{err: failed.err, called: true, inputs: "other"}, now, testRules)
	require.Equal(t, 1, a.retry.failures)

	uncertain := outcome{err: volume.AsUncertain(failed.err), called: true, inputs: "i"}
	a = claimAttempt{storage: storageAbsent}
	for range 10 {
		a.record(uncertain, now, testRules)
		require.False(t, a.retry.gaveUp)
	}
	require.Equal(t, time.Minute, a.retry.until.Sub(now))
	a.record(outcome{described: &v1.PersistentVolume{}, inputs: "i"}, now, testRules)
	require.Equal(t, 10, a.retry.failures, "the API server may refuse the object")
	a.record(outcome{described: &v1.PersistentVolume{}, inputs: "other"}, now, testRules)
	require.Zero(t, a.retry.failures)
}

func TestDefaultClass(t *testing.T) {
	class := func(name string, age int64, value string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(age, 0),
			Annotations: map[string]string{storageclass.DefaultAnnotation: value}}}
	}
	a, b, c, d := class("a", 1, "true"), class("b", 2, "true"), class("c", 2, "true"), class("d", 3, "false")
	require.Nil(t, storageclass.Default(nil))
	require.Nil(t, storageclass.Default([]*storagev1.StorageClass{d}))
	require.Equal(t, b, storageclass.Default([]*storagev1.StorageClass{a, c, b, d}), "the newest, then the first by name")
}

func TestAllowedTopologies(t *testing.T) {
	zone := func(values ...string) v1.TopologySelectorTerm {
		return v1.TopologySelectorTerm{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone", Values: values}}}
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "b"}}}
	require.True(t, storageclass.IsAllowed(&storagev1.StorageClass{}, node))
	require.True(t, storageclass.IsAllowed(&storagev1.StorageClass{AllowedTopologies: []v1.TopologySelectorTerm{zone("a"), zone("b", "c")}}, node))
	require.False(t, storageclass.IsAllowed(&storagev1.StorageClass{AllowedTopologies: []v1.TopologySelectorTerm{zone("a")}}, node))
	require.False(t, storageclass.IsAllowed(&storagev1.StorageClass{AllowedTopologies: []v1.TopologySelectorTerm{zone("b")}}, &v1.Node{}))
}

// TestCheckRequest: API servers refuse most of these claims, but a controller does not rely on it.
func TestCheckRequest(t *testing.T) {
	for size, want := range map[string]string{
		"":        `spec.resources.requests[storage]: Required value`,
		"0":       `spec.resources.requests[storage]: Invalid value: "0": must be greater than zero`,
		"-1Gi":    `spec.resources.requests[storage]: Invalid value: "-1Gi": must be greater than zero`,
		"100E":    `spec.resources.requests[storage]: Invalid value: "100E": too large`,
		"1e99999": `spec.resources.requests[storage]: Invalid value: "1e99999": too large`,
		"1m":      "", "1": "", "1Ei": "",
	} {
		claim := &v1.PersistentVolumeClaim{}
		if size != "" {
			claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
		}
		err := checkRequest(claim)
		if want == "" {
			require.NoError(t, err, size)
			continue
		}
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, volume.ErrInfeasible)
	}
}
