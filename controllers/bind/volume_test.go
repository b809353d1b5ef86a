package bind

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
)

// TestDecideVolume has the situations of volumes from the documentation of Kubernetes and from its
// binder. The claim of newSituation exists unless a situation says otherwise.
func TestDecideVolume(t *testing.T) {
	block := v1.PersistentVolumeBlock
	policy := func(p v1.PersistentVolumeReclaimPolicy) change {
		return onVolume(func(pv *v1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = p })
	}
	provisioned := onVolume(func(pv *v1.PersistentVolume) { pv.Annotations[provision.ProvisionedByAnnotation] = "example.com/p" })
	migrated := onVolume(func(pv *v1.PersistentVolume) { pv.Annotations[provision.MigratedToAnnotation] = "example.com/p" })
	elsewhere := onClaim(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "another" })
	gone := func(s *situation) { s.claim = nil }
	const (
		del     = v1.PersistentVolumeReclaimDelete
		recycle = v1.PersistentVolumeReclaimRecycle
	)
	type ability struct {
		isConfirmed, isRead, recycles bool
		deleter                       deleter
		owner                         *v1.PersistentVolumeClaim
	}
	confirmed := ability{isConfirmed: true}
	tests := map[string]struct {
		changes []change
		ability ability
		step    volumeStep
		reason  string
	}{
		"gone":                                    {[]change{func(s *situation) { s.pv = nil }}, ability{}, volumeForget, ""},
		"new":                                     {[]change{phase(v1.VolumePending)}, ability{}, volumeAvailable, ""},
		"available":                               {nil, ability{}, volumeHold, ""},
		"reserved by name, new":                   {[]change{reference("c", ""), phase(v1.VolumePending)}, ability{}, volumeAvailable, ""},
		"reserved by name":                        {[]change{reference("c", "")}, ability{}, volumeHold, ""},
		"reserved, claim is gone":                 {[]change{reference("c", ""), gone}, ability{}, volumeHold, ""},
		"released, reference removed":             {[]change{phase(v1.VolumeReleased)}, ability{}, volumeAvailable, ""},
		"failed, reference removed":               {[]change{phase(v1.VolumeFailed)}, ability{}, volumeAvailable, ""},
		"bound, reference removed":                {[]change{phase(v1.VolumeBound)}, ability{}, volumeFindOwner, ""},
		"bound, reference removed, owners read":   {[]change{phase(v1.VolumeBound)}, ability{isRead: true}, volumeAvailable, ""},
		"bound, a claim has been bound to it":     {[]change{phase(v1.VolumeBound)}, ability{owner: &v1.PersistentVolumeClaim{}}, volumeClaim, ""},
		"available, a claim has been bound to it": {nil, ability{owner: &v1.PersistentVolumeClaim{}}, volumeClaim, ""},
		"recycled":                                {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased), policy(recycle), marked("uid")}, ability{recycles: true}, volumeRecycle, ""},
		"recycled, then the policy Retain":        {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased), marked("uid")}, ability{recycles: true}, volumeHold, reasonFailedRecycle},
		"recycled, another reference":             {[]change{reference("c", "other"), gone, phase(v1.VolumeReleased), policy(recycle), marked("uid")}, ability{recycles: true}, volumeHold, reasonFailedRecycle},
		"recycled, reference removed":             {[]change{gone, phase(v1.VolumeReleased), policy(recycle), marked("uid")}, ability{recycles: true}, volumeRestore, reasonFailedRecycle},
		"recycled, the claim lives":               {[]change{reference("c", "uid"), phase(v1.VolumeBound), policy(recycle), marked("uid")}, ability{isConfirmed: true, recycles: true}, volumeHold, ""},
		"bound, UID removed":                      {[]change{reference("c", ""), phase(v1.VolumeBound)}, ability{}, volumeAvailable, ""},
		"bound, UID removed, of its claim":        {[]change{reference("c", ""), phase(v1.VolumeBound), named, completed}, ability{}, volumeClaim, ""},
		"lost, UID removed, of its claim":         {[]change{reference("c", ""), named, completed, claimPhase(v1.ClaimLost)}, ability{}, volumeClaim, ""},
		"bound, UID removed, of another volume":   {[]change{reference("c", ""), phase(v1.VolumeBound), elsewhere, completed}, ability{}, volumeAvailable, ""},
		"the claim is unbound":                    {[]change{reference("c", "uid")}, ability{}, volumeClaim, ""},
		"the claim has another mode":              {[]change{reference("c", "uid"), onVolume(func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block })}, ability{}, volumeHold, reasonVolumeMismatch},
		"the claim is being bound":                {[]change{reference("c", "uid"), named}, ability{}, volumeClaim, ""},
		"bound":                                   {[]change{reference("c", "uid"), named, phase(v1.VolumeBound)}, ability{}, volumeHold, ""},
		"released, but the claim lives":           {[]change{reference("c", "uid"), named, phase(v1.VolumeReleased), policy(del)}, ability{deleter: deletedHere}, volumeClaim, ""},
		"failed, but the claim lives":             {[]change{reference("c", "uid"), named, phase(v1.VolumeFailed), policy(recycle)}, ability{recycles: true}, volumeClaim, ""},

		"the claim is bound elsewhere":              {[]change{reference("c", "uid"), byController, elsewhere}, ability{}, volumeUnbind, ""},
		"elsewhere, reserved by a user":             {[]change{reference("c", "uid"), elsewhere}, ability{}, volumeUnbind, ""},
		"elsewhere, provisioned":                    {[]change{reference("c", "uid"), elsewhere, provisioned, policy(del)}, ability{}, volumeHold, ""},
		"elsewhere, provisioned, policy Retain":     {[]change{reference("c", "uid"), elsewhere, provisioned}, ability{}, volumeUnbind, ""},
		"the claim is not in a cache":               {[]change{reference("c", "uid"), gone, phase(v1.VolumeBound)}, ability{}, volumeConfirm, ""},
		"the claim of a cache is older":             {[]change{reference("c", "newer"), phase(v1.VolumeBound)}, ability{}, volumeConfirm, ""},
		"the claim is gone":                         {[]change{reference("c", "uid"), gone, phase(v1.VolumeBound)}, confirmed, volumeRelease, ""},
		"another claim of the name":                 {[]change{reference("c", "earlier"), phase(v1.VolumeBound)}, confirmed, volumeRelease, ""},
		"gone before it was bound":                  {[]change{reference("c", "uid"), gone, byController}, confirmed, volumeUnbind, ""},
		"gone before it was bound, new":             {[]change{reference("c", "uid"), gone, byController, phase(v1.VolumePending)}, confirmed, volumeUnbind, ""},
		"gone before it was bound, unconfirmed":     {[]change{reference("c", "uid"), gone, byController}, ability{}, volumeConfirm, ""},
		"gone, and was bound":                       {[]change{reference("c", "uid"), gone, byController, phase(v1.VolumeBound)}, confirmed, volumeRelease, ""},
		"gone before it was bound, by a user":       {[]change{reference("c", "uid"), gone}, confirmed, volumeRelease, ""},
		"gone before it was bound, provisioned":     {[]change{reference("c", "uid"), gone, byController, provisioned, policy(del)}, confirmed, volumeRelease, ""},
		"released, Retain":                          {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased)}, ability{}, volumeHold, ""},
		"failed, Retain":                            {[]change{reference("c", "uid"), gone, phase(v1.VolumeFailed)}, ability{}, volumeHold, ""},
		"released, Recycle":                         {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased), policy(recycle)}, ability{recycles: true}, volumeRecycle, ""},
		"failed, Recycle":                           {[]change{reference("c", "uid"), gone, phase(v1.VolumeFailed), policy(recycle)}, ability{recycles: true}, volumeRecycle, ""},
		"released, Recycle, no plugin":              {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased), policy(recycle)}, ability{}, volumeFail, reasonFailedRecycle},
		"failed, Recycle, no plugin":                {[]change{reference("c", "uid"), gone, phase(v1.VolumeFailed), policy(recycle)}, ability{}, volumeHold, ""},
		"released, Delete, external":                {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased), policy(del), provisioned}, ability{}, volumeHold, ""},
		"released, Delete, plugin":                  {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased), policy(del)}, ability{deleter: deletedHere}, volumeHold, ""},
		"failed, Delete, plugin":                    {[]change{reference("c", "uid"), gone, phase(v1.VolumeFailed), policy(del)}, ability{deleter: deletedHere}, volumeRelease, ""},
		"released, Delete, no plugin":               {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased), policy(del)}, ability{deleter: deletedNowhere}, volumeFail, reasonFailedDelete},
		"failed, Delete, no plugin":                 {[]change{reference("c", "uid"), gone, phase(v1.VolumeFailed), policy(del)}, ability{deleter: deletedNowhere}, volumeHold, ""},
		"released, Delete, migrated":                {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased), policy(del), migrated}, ability{deleter: deletedNowhere}, volumeHold, ""},
		"released, unknown policy":                  {[]change{reference("c", "uid"), gone, phase(v1.VolumeReleased), policy("Sell")}, ability{}, volumeFail, reasonUnknownPolicy},
		"released, another claim of the name lives": {[]change{reference("c", "earlier"), phase(v1.VolumeReleased)}, ability{}, volumeHold, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSituation()
			for _, change := range test.changes {
				change(s)
			}
			step, event := decideVolume(volumeView{
				volume: s.pv, claim: s.claim, isConfirmed: test.ability.isConfirmed, isRead: test.ability.isRead, recycles: test.ability.recycles, deleter: test.ability.deleter,
				owner: test.ability.owner,
			})
			require.Equal(t, test.step, step)
			require.Equal(t, test.reason, event.reason, event.message)
		})
	}
}
