package provision_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// simGuards are the code fragments that keep storage from being leaked or lost, each with the code
// without it. The simulation fails without any one of them.
var simGuards = []testbed.Guard{
	{"the finalizer comes before Provision", "claim.go", "return v.rules.guardsClaims && !v.hasGuard() || !isSet", "return !isSet"},
	{"storage of an earlier run is possible", "claim.go", "case a.storage == storageUnknown && v.hasGuard():", "case false:"},
	{"possible storage is called again for a claim in deletion", "claim.go", "case a.storage == storagePossible:", "case a.storage == storagePossible && v.role == ready:"},
	{"an ended context leaves the outcome open", "provisioner.go", "if isContext && !errors.Is(err, volume.ErrTransient) {", "if isContext && false {"},
	{"a transient error proves nothing of earlier calls", "claimattempt.go", "case volume.Transient: // as before the call", "case volume.Transient:\n\t\ta.storage, a.options = storageAbsent, nil"},
	{"a panic leaves the outcome open", "../internal/panics/panics.go", "*err = volume.AsUncertain(", "*err = volume.AsTransient("},
	{"the volume is read from the API server before a deletion", "volumehandler.go", "live, err := c.volumes.Live(ctx, api.KeyOf(pv))", "live, err := c.volumes.Get(ctx, api.KeyOf(pv))"},
	{"users are read before a deletion", "volumehandler.go", "return c.users.check(ctx, pv, claim)", "return nil"},
	{"storage without an object is discarded until its deletion succeeds", "storage.go", "if err == nil || isIgnored(err) {", "if true {"},
	{"a claim with a source gets no empty volume", "options.go", "c.checkSource(ctx, a.claim)", "error(nil)"},
	{"the pod that replaces another one is no user of its ephemeral volume", "users.go", " && !(v.Ephemeral != nil && ownsPresentClaim(pod, pv, claim))", ""},
	{"storage of a system with another address is not a second one", "discard.go", ` && ours != "" && theirs != ours`, ` && ours != ""`},
	{"only the policy Delete deletes", "volume.go", "case pv.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete:", "case false:"},
}

// tableGuards are those that tests of few steps find missing, see tableTests.
var tableGuards = []testbed.Guard{
	{"an error from before the call proves nothing", "claimattempt.go", "if !o.called {", "if false {"},
	{"the claim is read from the API server before a deletion", "volumehandler.go", "claim, err = c.claims.Live(ctx,", "claim, err = c.claims.Get(ctx,"},
	{"storage that nothing describes any more is called again", "claimattempt.go", "a.described, a.isOpen = nil, true", "a.described = nil"},
	{"the object is guarded from its creation", "object.go", "pv.Finalizers = append(pv.Finalizers, r.volumeFinalizer)", "_ = r.volumeFinalizer"},
	{"a volume that another one has stored is found", "claim.go", "case a.storage == storagePossible && a.object == objectUnknown:", "case false:"},
	{"the object of a claim that lives covers the storage", "claimhandler.go", "case live != nil && live.UID == claim.UID:", "case live != nil && false:"},
	{"an object that is not released covers the storage", "claimhandler.go", "if stored.Status.Phase != v1.VolumeReleased {", "if false {"},
	{"the storage of a late object is called again", "claim.go", "case a.storage == storagePossible && a.object == objectIsLate:", "case false:"},
	{"the storage of a late object keeps its policy", "storage.go", "cmp.Or(a.policy, o.described.Spec.PersistentVolumeReclaimPolicy)", "o.described.Spec.PersistentVolumeReclaimPolicy"},
	{"the volume is read last before a deletion", "volumehandler.go", "lives, err := c.claimLives(ctx, pv.Spec.ClaimRef)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\tlive, err := c.volumes.Live(ctx, api.KeyOf(pv))", "live, err := c.volumes.Live(ctx, api.KeyOf(pv))\n\tlives, _ := c.claimLives(ctx, pv.Spec.ClaimRef)"},
	{"a part of the claims proves nothing", "users.go", "if list.isPart {", "if false {"},
	{"users are read again after a long wait", "volumehandler.go", "if time.Since(confirmed) > confirmedFor {", "if false && time.Since(confirmed) > 0 {"},
	{"reads before a deletion end", "volumehandler.go", "ctx, cancel := c.withTimeout(ctx)\n\tdefer cancel()", ""},
	{"a pod of a later claim is no user", "users.go", " && !isYounger(pod, claim)", ""},
	{"the pod of an earlier ephemeral claim is a user", "users.go", " && pv.CreationTimestamp.Before(&pod.CreationTimestamp)", ""},
	{"only released volumes are deleted", "volume.go", "pv.Status.Phase == v1.VolumeReleased && ", ""},
	{"a reserved volume is kept", "volume.go", ` && pv.Spec.ClaimRef.UID != ""`, ""},
	{"an object in deletion without the finalizer is not ours", "volume.go", "(pv.DeletionTimestamp == nil || v.hasGuard())", "true"},
	{"options are checked before the finalizer", "claimhandler.go", "if o.options, _, o.err = c.optionsFor(ctx, v); o.err != nil {", "if false {"},
	{"storage of options that the checks refuse is discarded", "storage.go", "a.refusal = cmp.Or(o.refusal, refused, a.refusal)", "a.refusal = cmp.Or(refused, a.refusal)"},
	{"storage that the Provisioner refuses is discarded", "storage.go", "a.refusal = cmp.Or(o.refusal, refused, a.refusal)", "_, a.refusal = refused, cmp.Or(o.refusal, a.refusal)"},
	{"storage of a claim that was bound is not discarded", "options.go", "a.storage == storagePossible && !c.mayHaveData(a.claim)", "a.storage == storagePossible"},
	{"a repeated call may find its storage", "options.go", "options.MayExist = true", "_ = true"},
	{"a call after a restart may find its storage", "options.go", "MayExist: a.storage == storagePossible || v.isStored(),", "MayExist: v.isStored(),"},
	{"the storage of a stored object may exist", "options.go", "MayExist: a.storage == storagePossible || v.isStored(),", "MayExist: a.storage == storagePossible,"},
	{"the object is read with the permission of the discard", "storage.go", "if stored != nil || isBound {", "if isBound {"},
	{"the claim is read with the permission of the discard", "storage.go", "if stored != nil || isBound {", "if stored != nil {"},
	{"refused storage of a claim that was bound stays", "storage.go", "if a.refusal != nil && c.mayHaveData(a.claim) && !v.isStored() {", "if false {"},
	{"storage of a bound claim whose object is refused stays", "storage.go", "case isRefused(err) && c.mayHaveData(a.claim):", "case false:"},
	{"a mark without work of a controller is one of a tenant", "claim.go", "case !v.isProvisioning():", "case false:"},
	{"a discard adds the finalizer with its mark", "discard.go", "p = p.WithFinalizer(ClaimFinalizer)", "_ = ClaimFinalizer"},
	{"the finalizer of a mark that was not read stays", "claimhandler.go", "if v.isStored() { // the version", "if false { // the version"},
	{"a stored volume whose storage another one has discarded is provisioned again", "claim.go", "case !v.isMarked(), a.isIgnored,", "case true, a.isIgnored,"},
	{"the claim is marked before a discard", "storage.go", "if isBound, err = c.beginDiscard(ctx, v, a); err != nil {", "if false {"},
	{"a discard that fails is marked", "storage.go", "a.endsDiscard = true // also", "// also"},
	{"the end of a discard is marked", "claim.go", "case a.endsDiscard:", "case false:"},
	{"no object is stored during the discard of another controller", "claim.go", "case v.awaitDiscard(now) > 0:\n\t\treturn claimWait, v.awaitDiscard(now)\n\tcase a.refusal", "case a.refusal"},
	{"no object is stored for storage that another controller has discarded", "claim.go", "case a.described != nil && v.isMarked():", "case false:"},
	{"the wait for a discard ends", "discard.go", "v.attempt.markedSince.Add(v.rules.markWait).Sub(now)", "time.Hour"},
	{"the mark is removed after the storage is provisioned again", "claim.go", "case v.hasGuard(), v.isRestored():", "case v.hasGuard():"},
	{"a call for a refused object is no success", "claimattempt.go", "a.retry.begin(o.inputs) //", "a.retry = retry{} //"},
	{"a list whose read has panicked proves nothing", "../internal/sharedlist/sharedlist.go", "list.isAbandoned = true // also", "// also"},
	{"the reference is the one that was confirmed", "volumehandler.go", " || *live.Spec.ClaimRef != *pv.Spec.ClaimRef {", " {"},
	{"the volume that was read is to be reclaimed", "volumehandler.go", "step != volumeReclaim {", "step != volumeReclaim && false {"},
	{"volumes in use by a node are kept", "users.go", " || slices.Contains(node.Status.VolumesInUse, name) {", " {"},
	{"volumes with an attachment are kept", "users.go", "source != nil && *source == volume {", "source != nil && *source == \"\" {"},
	{"the volume of a claim that lives is kept", "volume.go", " && !v.claimLives && v.permitted", " && v.permitted"},
	{"a free static volume in deletion is released", "volume.go", "case v.isFreeInDeletion():", "case false:"},
	{"a provisioned volume in deletion is not given up", "volume.go", " && pv.Annotations[ProvisionedByAnnotation] == \"\"", ""},
	{"the name of another claim's volume is not provisioned for", "claim.go", "case v.isNameTaken() && v.role != ready:", "case false:"},
	{"a volume is guarded in its version", "volumehandler.go", "OfVersion(pv).WithFinalizer(", "WithFinalizer("},
	{"a reference without a name confirms nothing", "volumehandler.go", "if ref.Namespace == \"\" || ref.Name == \"\" {", "if false {"},
	{"an unseen claim of a released volume is read again", "volumehandler.go", "return workers.Result{After: v.pause}, nil", "return workers.Result{}, nil"},
	{"refused storage beside a stored one is deleted", "storage.go", "if !isOtherStorage(stored, a.described) {\n\t\t\ta.described", "if true {\n\t\t\ta.described"},
	{"the later one of two storages is deleted", "claimhandler.go", "if isOtherStorage(stored, a.described) {", "if false {"},
	{"storage without a name is not deleted", "discard.go", `theirs != "" && ours != "" && theirs`, `theirs`},
	{"an uncertain call may have created a second storage", "claim.go", "case v.mayHaveSecond():", "case false:"},
	{"nodes that were not read are not gone", "gonenodes.go", `name == "" || !g.nodes.HasSynced()`, `name == ""`},
	{"a node that exists again keeps its claims", "gonenodes.go", "err != nil || missing == nil {", "err != nil || false {"},
	{"a bound claim keeps its node", "gonenodes.go", `hasVolume := v.claim.Spec.VolumeName != "" || v.isStored()`, "hasVolume := false"},
	{"a node without a hostname may have each volume", "gonenodes.go", "!ok || label == hostname", "ok && label == hostname"},
	{"the second storage is read with the permission of the discard", "discard.go", "isOther = stored != nil && isOtherStorage(stored, a.described); !isOther", "isOther = true; stored == nil && false"},
	{"a second storage that was half deleted is not stored", "discard.go", "a.dropDescription()\n\tfailure", "a.isOpen = true\n\tfailure"},
	{"the mark of another storage stays", "claim.go", "case a.hasDiscarded: //", "case false: //"},
	{"one source by two names is one storage", "discard.go", "provisioned == nil || equality.Semantic.DeepEqual(stored.Spec.PersistentVolumeSource, provisioned.Spec.PersistentVolumeSource)", "provisioned == nil || !equality.Semantic.DeepEqual(0, 0)"},
	{"a node that exists again keeps its volumes", "gonenodes.go", "case len(found.Items) > 0:", "case len(found.Items) > 0 && false:"},
	{"the volume of a node that is gone stays until a user deletes it", "gonenodes.go", "case pv.DeletionTimestamp == nil:", "case false:"},
	{"a volume that the binder would refuse is not stored", "object.go", "return pv, util.MatchVolume(o.PVC, pv, node)", "_ = util.MatchVolume(o.PVC, pv, node)\n\treturn pv, nil"},
}

const tableTests = "^(TestOutcomes|TestClaimLivesAgain|TestLifeOfAClaim|TestClaimOfTheSameName|TestVolumeInUse|TestDecideClaim|TestDecideVolume|TestObjectIsRefused|TestProvisioned|TestGuardedWithoutNode|TestDataIsNotDiscarded|TestRefusedAndStored|TestRefusedThreshold|TestDeletionsShareLists|TestOldConfirmation|TestReadsBeforeADeletionTimeOut|TestStoredWithTimeout|TestLateObject|TestVolumeIsReadLast|TestDiscardBesideAnother|TestFailedDiscardBesideAnother|TestMarkOfATenant|TestStorageMayExist|TestRefusedStorage|TestRefusedDataStays|TestBoundDuringDiscard|TestPanicInRead|TestUnseenClaimOfReleasedVolume|TestVolumeChangesUnseen|TestTwoControllersGuardVolume|TestReferenceToNoName|TestTwoStorages|TestClaimsOfGoneNode|TestVolumesOfGoneNode|TestNodesAreNotSeen|TestBegunClaimsOfGoneNode|TestNodeComesBack|TestNodeWithoutHostname|TestStorerCrashes|TestUsesVolume|TestHalfDeletedSecond|TestRefusedSecond|TestUndescribedSecond|TestSecondStorageIsReadLast|TestMarkOfAnotherStorage|TestLostStorageName)$"

// TestGuardsAreThere: a guard that has been written in another way is still in the lists.
func TestGuardsAreThere(t *testing.T) {
	testbed.CheckGuards(t, simGuards)
	testbed.CheckGuards(t, tableGuards)
}

// TestSimulationFindsMissingGuards: without any one of simGuards the simulation fails within 1,000
// seeds, and without any one of tableGuards a test of few steps. "make mutants" runs it; MUTANTS in the
// environment is a part of the names of those to remove.
func TestSimulationFindsMissingGuards(t *testing.T) {
	testbed.SimulationMutants(t, simGuards, tableGuards, tableTests)
}
