package bind

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A situation is a claimView that a test changes.
type situation struct {
	claimView
	pv *v1.PersistentVolume // of claimView.volume, once a change sets it
}

// newSituation returns a pending claim of 1Gi without a class, and an available volume that fits.
func newSituation() *situation {
	none := ""
	s := &situation{}
	s.claim = &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid", Annotations: map[string]string{}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &none, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
	s.pv = &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{}},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
	return s
}

// A change changes a situation.
type change func(*situation)

func withVolume(s *situation)     { s.volume = s.pv }
func named(s *situation)          { s.claim.Spec.VolumeName = "pv" }
func searched(s *situation)       { s.isSearched = true }
func fresh(s *situation)          { s.isFresh = true }
func leavingVolume(s *situation)  { s.leaving, s.volume = s.pv, nil }
func volumeDeleting(s *situation) { s.pv.DeletionTimestamp = &metav1.Time{} }
func deleting(s *situation)       { s.claim.DeletionTimestamp = &metav1.Time{} }
func selected(s *situation)       { s.claim.Annotations[provision.SelectedNodeAnnotation] = "node" }
func rivaled(s *situation)        { s.rival = &v1.PersistentVolumeClaim{} }
func inTree(s *situation)         { s.provisions = true }
func completed(s *situation)      { s.claim.Annotations[BindCompletedAnnotation] = yes }
func byController(s *situation)   { s.pv.Annotations[BoundByControllerAnnotation] = yes }

// marked marks the volume as recycled for the claim with a UID.
func marked(uid string) change {
	return func(s *situation) {
		s.pv.Annotations[RecyclingAnnotation] = fmt.Sprintf(`{"namespace":"ns","name":"c","uid":%q}`, uid)
	}
}

func reference(name, uid string) change {
	return func(s *situation) {
		s.volume = s.pv
		s.pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: name, UID: types.UID(uid)}
	}
}

func phase(p v1.PersistentVolumePhase) change { return func(s *situation) { s.pv.Status.Phase = p } }

func claimPhase(p v1.PersistentVolumeClaimPhase) change {
	return func(s *situation) { s.claim.Status.Phase = p }
}

// bound makes the status of the claim that of a bound one.
func bound(s *situation) {
	s.claim.Status.Phase, s.claim.Status.AccessModes, s.claim.Status.Capacity = v1.ClaimBound, s.pv.Spec.AccessModes, s.pv.Spec.Capacity
}

func onVolume(f func(*v1.PersistentVolume)) change     { return func(s *situation) { f(s.pv) } }
func onClaim(f func(*v1.PersistentVolumeClaim)) change { return func(s *situation) { f(s.claim) } }

// classed gives the claim a class that exists.
func classed(provisioner string) change {
	return func(s *situation) {
		name := "fast"
		s.claim.Spec.StorageClassName = &name
		s.class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner}
	}
}

func late(s *situation) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	s.class.VolumeBindingMode = &mode
}

func requested(s *situation) {
	s.claim.Annotations[provision.ProvisionerAnnotation] = s.class.Provisioner
}

// TestDecideClaim has the situations of claims from the documentation of Kubernetes and from its binder.
func TestDecideClaim(t *testing.T) {
	missing := "missing"
	block := v1.PersistentVolumeBlock
	tests := map[string]struct {
		changes []change
		step    claimStep
		reason  string
	}{
		"gone": {[]change{func(s *situation) { s.claim = nil }}, claimForget, ""},

		"new":                                {nil, claimSearch, ""},
		"a volume fits":                      {[]change{searched, withVolume}, claimReserve, ""},
		"no volume fits, no class":           {[]change{searched}, claimHold, reasonFailedBinding},
		"unbound, with the status of before": {[]change{searched, bound}, claimReset, reasonFailedBinding},
		"lost without the annotation":        {[]change{searched, claimPhase(v1.ClaimLost)}, claimReset, reasonFailedBinding},
		"in deletion":                        {[]change{deleting}, claimHold, ""},
		"in deletion, a volume refers to it": {[]change{deleting, reference("c", "uid")}, claimHold, ""},
		"a volume refers to it by name":      {[]change{reference("c", "")}, claimReserve, ""},
		"a volume refers to it by UID":       {[]change{reference("c", "uid")}, claimBind, ""},
		"a provisioned volume":               {[]change{classed("example.com/p"), requested, reference("c", "uid")}, claimBind, ""},
		"the scheduler has chosen a volume":  {[]change{classed("kubernetes.io/no-provisioner"), late, reference("c", "uid"), byController}, claimBind, ""},
		"the chosen volume is another's":     {[]change{reference("c", ""), rivaled}, claimHold, reasonFailedBinding},
		"an earlier run wrote the reference": {[]change{reference("c", "uid"), byController}, claimBind, ""},
		"a volume of phase Released refers":  {[]change{reference("c", "uid"), phase(v1.VolumeReleased)}, claimBind, ""},

		"no class, default class":           {[]change{searched, onClaim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }), func(s *situation) { s.defaultClass = &storagev1.StorageClass{} }}, claimClass, ""},
		"no class, default class, a volume": {[]change{searched, withVolume, onClaim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }), func(s *situation) { s.defaultClass = &storagev1.StorageClass{} }}, claimReserve, ""},
		"no class, no default class":        {[]change{searched, onClaim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil })}, claimHold, reasonFailedBinding},
		"empty class, default class":        {[]change{searched, func(s *situation) { s.defaultClass = &storagev1.StorageClass{} }}, claimHold, reasonFailedBinding},
		"class in the annotation, default class": {[]change{searched, func(s *situation) { s.defaultClass = &storagev1.StorageClass{} }, onClaim(func(c *v1.PersistentVolumeClaim) {
			c.Spec.StorageClassName, c.Annotations[v1.BetaStorageClassAnnotation] = nil, ""
		})}, claimHold, reasonFailedBinding},
		"missing class":                     {[]change{searched, onClaim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = &missing })}, claimHold, reasonProvisioningFailed},
		"missing class, static volumes":     {[]change{onClaim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = &missing })}, claimSearch, ""},
		"external provisioner":              {[]change{searched, classed("example.com/p")}, claimRequest, ""},
		"external provisioner, requested":   {[]change{searched, classed("example.com/p"), requested}, claimHold, reasonExternalProvisioning},
		"another provisioner was requested": {[]change{searched, classed("example.com/p"), requested, onClaim(func(c *v1.PersistentVolumeClaim) { c.Annotations[provision.ProvisionerAnnotation] = "old" })}, claimRequest, ""},
		"only the old annotation": {[]change{searched, classed("example.com/p"), onClaim(func(c *v1.PersistentVolumeClaim) {
			c.Annotations[provision.BetaProvisionerAnnotation] = "example.com/p"
		})}, claimRequest, ""},
		"plugin of this program":            {[]change{searched, inTree, classed("kubernetes.io/nfs")}, claimRequest, ""},
		"plugin of this program, requested": {[]change{searched, inTree, classed("kubernetes.io/nfs"), requested}, claimHold, ""},
		"missing plugin":                    {[]change{searched, classed("kubernetes.io/other")}, claimHold, reasonProvisioningFailed},
		"no provisioner":                    {[]change{searched, classed("kubernetes.io/no-provisioner")}, claimHold, reasonProvisioningFailed},
		"static volume before provisioning": {[]change{searched, withVolume, classed("example.com/p"), requested}, claimReserve, ""},

		"waits for a consumer":                 {[]change{classed("example.com/p"), late}, claimHold, reasonWaitForFirstConsumer},
		"waits, node selected":                 {[]change{classed("example.com/p"), late, selected}, claimRequest, ""},
		"waits, node selected, requested":      {[]change{classed("example.com/p"), late, selected, requested}, claimHold, reasonExternalProvisioning},
		"waits, static volumes, node selected": {[]change{classed("kubernetes.io/no-provisioner"), late, selected}, claimHold, reasonProvisioningFailed},
		"waits, the status is that of before":  {[]change{classed("example.com/p"), late, bound}, claimReset, reasonWaitForFirstConsumer},
		"waits, but names a volume":            {[]change{classed("example.com/p"), late, named, withVolume, onVolume(func(pv *v1.PersistentVolume) { pv.Spec.StorageClassName = "fast" })}, claimReserve, ""},
		"no wait, but a node of before":        {[]change{selected}, claimSearch, ""},

		"names a missing volume":             {[]change{named}, claimHold, ""},
		"names a missing volume, was lost":   {[]change{named, claimPhase(v1.ClaimLost)}, claimReset, ""},
		"names an available volume":          {[]change{named, withVolume}, claimReserve, ""},
		"names a volume that is too small":   {[]change{named, withVolume, onVolume(func(pv *v1.PersistentVolume) { pv.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("1Mi") })}, claimHold, reasonVolumeMismatch},
		"names a volume of another class":    {[]change{named, withVolume, onVolume(func(pv *v1.PersistentVolume) { pv.Spec.StorageClassName = "fast" })}, claimHold, reasonVolumeMismatch},
		"names a block device":               {[]change{named, withVolume, onVolume(func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block })}, claimHold, reasonVolumeMismatch},
		"names a volume of other modes":      {[]change{named, withVolume, onVolume(func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = nil })}, claimHold, reasonVolumeMismatch},
		"names a volume of other attributes": {[]change{named, withVolume, onVolume(func(pv *v1.PersistentVolume) { pv.Spec.VolumeAttributesClassName = &missing })}, claimHold, reasonVolumeMismatch},
		"names a volume without its labels": {[]change{named, withVolume, onClaim(func(c *v1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"k": "v"}}
		})}, claimReserve, ""},
		"names a volume in deletion":            {[]change{named, withVolume, onVolume(func(pv *v1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{} })}, claimHold, reasonVolumeMismatch},
		"names a reserved volume in deletion":   {[]change{named, reference("c", ""), volumeDeleting}, claimHold, reasonVolumeMismatch},
		"names a volume in deletion, by UID":    {[]change{named, reference("c", "uid"), volumeDeleting}, claimUnbind, reasonVolumeMismatch},
		"names a bound volume in deletion":      {[]change{named, reference("c", "uid"), volumeDeleting, phase(v1.VolumeBound)}, claimBind, ""},
		"a volume in deletion refers to it":     {[]change{reference("c", "uid"), volumeDeleting, leavingVolume}, claimUnbind, ""},
		"names each other":                      {[]change{named, reference("c", "")}, claimReserve, ""},
		"names each other, too small":           {[]change{named, reference("c", ""), onVolume(func(pv *v1.PersistentVolume) { pv.Spec.Capacity = nil })}, claimReserve, ""},
		"names each other, by UID":              {[]change{named, reference("c", "uid")}, claimBind, ""},
		"names each other, in deletion":         {[]change{named, deleting, reference("c", "uid")}, claimBind, ""},
		"names a free volume, in deletion":      {[]change{named, deleting, withVolume}, claimHold, ""},
		"names the volume of another claim":     {[]change{named, reference("d", "other")}, claimHold, reasonFailedBinding},
		"names the volume of an earlier claim":  {[]change{named, reference("c", "earlier")}, claimHold, reasonFailedBinding},
		"names a volume that another one has":   {[]change{named, withVolume, rivaled}, claimHold, reasonFailedBinding},
		"the annotation was removed":            {[]change{named, reference("c", "uid"), bound, phase(v1.VolumeBound)}, claimBind, ""},
		"the annotation and the volume are off": {[]change{named, bound}, claimReset, ""},

		"bound":                          {[]change{named, completed, bound, reference("c", "uid"), phase(v1.VolumeBound)}, claimHold, ""},
		"bound, crash before the phase":  {[]change{named, completed, reference("c", "uid"), phase(v1.VolumeAvailable)}, claimBindPhase, ""},
		"bound, the volume is Released":  {[]change{named, completed, bound, reference("c", "uid"), phase(v1.VolumeReleased)}, claimVerify, ""},
		"bound, Released, verified":      {[]change{named, completed, bound, reference("c", "uid"), phase(v1.VolumeReleased), func(s *situation) { s.isVerified = true }}, claimBindPhase, ""},
		"bound, crash before the status": {[]change{named, completed, reference("c", "uid"), phase(v1.VolumeBound)}, claimFindRivals, ""},
		"bound, the volume is recycled":  {[]change{named, completed, bound, reference("c", "uid"), phase(v1.VolumeReleased), marked("gone")}, claimHold, ""},
		"bound, recycled, no reference":  {[]change{named, completed, bound, withVolume, marked("gone")}, claimHold, ""},
		"named, the volume is recycled":  {[]change{named, withVolume, marked("gone")}, claimHold, reasonFailedBinding},
		"named, recycled, for the claim": {[]change{named, reference("c", "uid"), marked("gone")}, claimHold, reasonFailedBinding},
		"bound, rivals are read":         {[]change{named, completed, reference("c", "uid"), phase(v1.VolumeBound), func(s *situation) { s.isSole = true }}, claimStatus, ""},
		"bound, other access modes":      {[]change{named, completed, bound, reference("c", "uid"), phase(v1.VolumeBound), onClaim(func(c *v1.PersistentVolumeClaim) { c.Status.AccessModes = nil })}, claimStatus, ""},
		"bound, the volume has grown": {[]change{named, completed, bound, reference("c", "uid"), phase(v1.VolumeBound), onVolume(func(pv *v1.PersistentVolume) {
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
		})}, claimHold, ""},
		"bound, the volume is not in a cache":           {[]change{named, completed, bound}, claimConfirm, ""},
		"bound, the volume is gone":                     {[]change{named, completed, bound, fresh}, claimLose, reasonClaimLost},
		"lost, the volume is gone":                      {[]change{named, completed, claimPhase(v1.ClaimLost), fresh}, claimHold, ""},
		"bound, names no volume":                        {[]change{completed, bound}, claimLose, reasonClaimLost},
		"bound, the reference is gone":                  {[]change{named, completed, bound, withVolume}, claimReserve, ""},
		"bound, no reference, another's, late cache":    {[]change{named, completed, bound, withVolume, rivaled}, claimConfirm, ""},
		"bound, no reference, another's":                {[]change{named, completed, bound, withVolume, rivaled, fresh}, claimLose, reasonClaimMisbound},
		"bound, the reference is another's, late cache": {[]change{named, completed, bound, reference("d", "other")}, claimConfirm, ""},
		"bound, the reference is another's":             {[]change{named, completed, bound, reference("d", "other"), fresh}, claimLose, reasonClaimMisbound},
		"bound, the reference has no UID":               {[]change{named, completed, bound, reference("c", "")}, claimReserve, ""},
		"bound, the reference has no UID, recycled":     {[]change{named, completed, bound, reference("c", ""), marked("gone")}, claimHold, ""},
		"bound, another's reference has no UID":         {[]change{named, completed, bound, reference("d", ""), fresh}, claimLose, reasonClaimMisbound},
		"lost, the reference has no UID":                {[]change{named, completed, claimPhase(v1.ClaimLost), reference("c", "")}, claimReserve, ""},
		"bound, the reference is of before, late cache": {[]change{named, completed, bound, reference("c", "earlier")}, claimConfirm, ""},
		"bound, the reference is of before":             {[]change{named, completed, bound, reference("c", "earlier"), fresh}, claimLose, reasonClaimMisbound},
		"lost, the volume comes again":                  {[]change{named, completed, claimPhase(v1.ClaimLost), withVolume}, claimReserve, ""},
		"lost, the volume is its own again, late cache": {[]change{named, completed, claimPhase(v1.ClaimLost), reference("c", "uid"), phase(v1.VolumeBound)}, claimConfirm, ""},
		"lost, the volume is its own again":             {[]change{named, completed, claimPhase(v1.ClaimLost), reference("c", "uid"), phase(v1.VolumeBound), fresh}, claimReset, ""},
		"found again, another claim has been bound":     {[]change{named, completed, reference("c", "uid"), phase(v1.VolumeBound), rivaled}, claimHold, ""},
		"bound, in deletion":                            {[]change{named, completed, bound, deleting, reference("c", "uid"), phase(v1.VolumeBound)}, claimHold, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSituation()
			for _, change := range test.changes {
				change(s)
			}
			step, event := decideClaim(s.claimView)
			require.Equal(t, test.step, step)
			require.Equal(t, test.reason, event.reason, event.message)
		})
	}
}

// TestCheckMatch: a volume that refers to the claim must fit, apart from its class and labels.
func TestCheckMatch(t *testing.T) {
	tests := map[string]struct {
		changes []change
		ok      bool
	}{
		"fits":                        {nil, true},
		"another class":               {[]change{onVolume(func(pv *v1.PersistentVolume) { pv.Spec.StorageClassName = "fast" })}, false},
		"referring, another class":    {[]change{reference("c", ""), onVolume(func(pv *v1.PersistentVolume) { pv.Spec.StorageClassName = "fast" })}, true},
		"referring, class annotation": {[]change{reference("c", ""), onVolume(func(pv *v1.PersistentVolume) { pv.Annotations[v1.BetaStorageClassAnnotation] = "fast" })}, true},
		"referring, too small":        {[]change{reference("c", ""), onVolume(func(pv *v1.PersistentVolume) { pv.Spec.Capacity = nil })}, false},
		"referring, other modes":      {[]change{reference("c", ""), onVolume(func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = nil })}, false},
		"referring, in deletion":      {[]change{reference("c", "uid"), onVolume(func(pv *v1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{} })}, false},
		"of an earlier claim":         {[]change{reference("c", "earlier")}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSituation()
			for _, change := range test.changes {
				change(s)
			}
			err := checkMatch(s.claim, s.pv)
			require.Equal(t, test.ok, err == nil, err)
		})
	}
}
