package attachment

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const testDriver = "driver.example.com"

// newView returns a view of a new VolumeAttachment, with changes.
func newView(changes ...func(*view)) view {
	name := "pv"
	v := view{
		rules: rules{driver: testDriver, finalizer: Finalizer(testDriver)},
		attachment: &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", Annotations: map[string]string{}},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: testDriver, NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
			},
		},
		volume: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "2"}},
		nodeID: "id",
	}
	v.volume.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: testDriver, VolumeHandle: "disk"}
	for _, change := range changes {
		change(&v)
	}
	return v
}

// Changes of a view.
func guarded(v *view) {
	v.attachment.Finalizers = []string{v.finalizer}
	v.attachment.Annotations = map[string]string{NodeIDAnnotation: "id", VolumeHandleAnnotation: "disk"}
}
func volumeGuarded(v *view) { v.volume.Finalizers = []string{v.finalizer} }
func attachedView(v *view)  { v.attachment.Status.Attached = true }
func failed(v *view)        { v.attachment.Status.AttachError = &storagev1.VolumeError{Message: "no room"} }
func deleting(v *view) {
	now := metav1.NewTime(time.Unix(1, 0))
	v.attachment.DeletionTimestamp = &now
}
func volumeDeleting(v *view) {
	now := metav1.NewTime(time.Unix(1, 0))
	v.volume.DeletionTimestamp = &now
}
func lost(v *view)              { v.isLost = true }
func shared(v *view)            { v.isShared = true }
func withoutVolume(v *view)     { v.volume = nil }
func withoutNode(v *view)       { v.nodeID = "" }
func withoutPublish(v *view)    { v.noPublish = true }
func otherNodeID(v *view)       { v.nodeID = "id-2" }
func otherHandle(v *view)       { v.volume.Spec.CSI.VolumeHandle = "disk-2" }
func withoutHandle(v *view)     { delete(v.attachment.Annotations, VolumeHandleAnnotation) }
func withoutRecord(v *view)     { v.attachment.Annotations = nil }
func ofOtherDriver(v *view)     { v.volume.Spec.CSI.Driver = "other.example.com" }
func longNodeID(v *view)        { v.nodeID = strings.Repeat("x", mostNodeID+1) }
func foreignAttachment(v *view) { v.attachment.Spec.Attacher = "other.example.com" }
func gone(v *view)              { v.attachment = nil }
func inTree(v *view) {
	v.volume.Spec.CSI, v.volume.Spec.NFS = nil, &v1.NFSVolumeSource{Server: "s", Path: "/p"}
}
func inline(v *view) {
	v.volume = &v1.PersistentVolume{Spec: v.volume.Spec}
	v.attachment.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &v.volume.Spec}
}

// TestDecide: the step for each state.
func TestDecide(t *testing.T) {
	type changes = []func(*view)
	for name, test := range map[string]struct {
		changes changes
		want    step
		problem error
	}{
		"gone":                                  {changes{gone}, stepNone, nil},
		"foreign":                               {changes{foreignAttachment}, stepNone, nil},
		"foreign, deleting, with the finalizer": {changes{foreignAttachment, guarded, deleting}, stepNone, nil},

		"new":                                    {nil, stepGuard, nil},
		"new, inline":                            {changes{inline}, stepGuard, nil},
		"new, volume is guarded":                 {changes{volumeGuarded}, stepGuard, nil},
		"new, no volume":                         {changes{withoutVolume}, stepFail, errNoVolume},
		"new, volume is being deleted":           {changes{volumeDeleting}, stepFail, errVolumeDeleting},
		"new, volume of another driver":          {changes{ofOtherDriver}, stepFail, errOtherDriver},
		"new, no node ID":                        {changes{withoutNode}, stepFail, errNoNodeID},
		"new, long node ID":                      {changes{longNodeID}, stepFail, errLongNodeID},
		"new, with annotations of a user":        {changes{guarded, func(v *view) { v.attachment.Finalizers = nil }, otherNodeID}, stepGuard, nil},
		"guarded":                                {changes{guarded}, stepGuardVolume, nil},
		"guarded, inline":                        {changes{guarded, inline}, stepAttach, nil},
		"guarded, in-tree":                       {changes{guarded, withoutHandle, inTree, volumeGuarded}, stepAttach, nil},
		"both guarded":                           {changes{guarded, volumeGuarded}, stepAttach, nil},
		"failed":                                 {changes{guarded, volumeGuarded, failed}, stepAttach, nil},
		"guarded, without a record":              {changes{guarded, withoutRecord, volumeGuarded}, stepGuard, nil},
		"guarded, without a handle":              {changes{guarded, withoutHandle, volumeGuarded}, stepGuard, nil},
		"guarded, no node":                       {changes{guarded, volumeGuarded, withoutNode}, stepAttach, nil},
		"guarded, other node ID":                 {changes{guarded, volumeGuarded, otherNodeID}, stepMove, nil},
		"guarded, other node ID, handle unknown": {changes{guarded, withoutHandle, volumeGuarded, otherNodeID}, stepMove, nil},
		"guarded, other node ID, shared":         {changes{guarded, volumeGuarded, otherNodeID, shared}, stepForget, nil},
		"guarded, other handle":                  {changes{guarded, otherHandle}, stepMove, nil},
		"guarded, no volume":                     {changes{guarded, withoutVolume}, stepFail, errNoVolume},
		"guarded, volume is being deleted":       {changes{guarded, volumeGuarded, volumeDeleting}, stepFail, errVolumeDeleting},

		"attached":                                {changes{guarded, volumeGuarded, attachedView}, stepNone, nil},
		"attached, with an error":                 {changes{guarded, volumeGuarded, attachedView, failed}, stepClear, nil},
		"attached, unguarded":                     {changes{attachedView}, stepGuard, nil},
		"attached, volume is unguarded":           {changes{guarded, attachedView}, stepGuardVolume, nil},
		"attached, inline":                        {changes{guarded, inline, attachedView}, stepNone, nil},
		"attached, no volume":                     {changes{guarded, attachedView, withoutVolume}, stepNone, nil},
		"attached, volume is being deleted":       {changes{guarded, attachedView, volumeDeleting}, stepNone, nil},
		"attached, other node ID":                 {changes{guarded, volumeGuarded, attachedView, otherNodeID}, stepNone, nil},
		"attached, other handle":                  {changes{guarded, volumeGuarded, attachedView, otherHandle}, stepNone, nil},
		"attached, no node":                       {changes{guarded, volumeGuarded, attachedView, withoutNode}, stepNone, nil},
		"lost":                                    {changes{guarded, volumeGuarded, attachedView, lost}, stepAttach, nil},
		"lost, unguarded":                         {changes{attachedView, lost}, stepGuard, nil},
		"lost, volume is unguarded":               {changes{guarded, attachedView, lost}, stepGuardVolume, nil},
		"lost, other node ID":                     {changes{guarded, volumeGuarded, attachedView, lost, otherNodeID}, stepAttach, nil},
		"lost, other handle":                      {changes{guarded, volumeGuarded, attachedView, lost, otherHandle}, stepFail, errOtherVolume},
		"lost, volume is being deleted":           {changes{guarded, volumeGuarded, attachedView, lost, volumeDeleting}, stepAttach, nil},
		"lost, unguarded volume is being deleted": {changes{guarded, attachedView, lost, volumeDeleting}, stepFail, errVolumeDeleting},

		"deleting, new":                         {changes{deleting}, stepNone, nil},
		"deleting, attached by another program": {changes{deleting, attachedView}, stepNone, nil},
		"deleting":                              {changes{deleting, guarded, volumeGuarded, attachedView}, stepDetach, nil},
		"deleting, never attached":              {changes{deleting, guarded}, stepDetach, nil},
		"deleting, inline":                      {changes{deleting, guarded, inline}, stepDetach, nil},
		"deleting, no node":                     {changes{deleting, guarded, withoutNode}, stepDetach, nil},
		"deleting, other node ID":               {changes{deleting, guarded, otherNodeID}, stepDetach, nil},
		"deleting, no volume":                   {changes{deleting, guarded, withoutVolume}, stepDetach, nil},
		"deleting, other handle":                {changes{deleting, guarded, otherHandle}, stepDetach, nil},
		"deleting, no volume and no handle":     {changes{deleting, guarded, withoutHandle, withoutVolume}, stepFail, errNoVolume},
		"deleting, no record":                   {changes{deleting, guarded, withoutRecord}, stepDetach, nil},
		"deleting, no record and no node":       {changes{deleting, guarded, withoutRecord, withoutNode}, stepFail, errNoNodeID},
		"deleting, volume is being deleted":     {changes{deleting, guarded, volumeGuarded, volumeDeleting}, stepDetach, nil},
		"deleting, shared":                      {changes{deleting, guarded, shared}, stepRelease, nil},
		"deleting, lost":                        {changes{deleting, guarded, attachedView, lost}, stepDetach, nil},

		"no publish":                   {changes{withoutPublish, withoutNode, withoutVolume}, stepAccept, nil},
		"no publish, failed":           {changes{withoutPublish, attachedView, failed}, stepAccept, nil},
		"no publish, attached":         {changes{withoutPublish, attachedView}, stepNone, nil},
		"no publish, deleting":         {changes{withoutPublish, attachedView, deleting}, stepNone, nil},
		"no publish, deleting guarded": {changes{withoutPublish, guarded, withoutVolume, deleting}, stepRelease, nil},
	} {
		t.Run(name, func(t *testing.T) {
			step, problem := decide(newView(test.changes...))
			require.Equal(t, test.want, step)
			require.Equal(t, test.problem, problem)
		})
	}
}

// TestDetachedTarget: a detach concerns the recorded target.
func TestDetachedTarget(t *testing.T) {
	for name, test := range map[string]struct {
		changes        []func(*view)
		handle, nodeID string
		isWhole        bool // the PersistentVolume itself
	}{
		"recorded":         {[]func(*view){guarded}, "disk", "id", true},
		"no volume":        {[]func(*view){guarded, withoutVolume}, "disk", "id", false},
		"other handle":     {[]func(*view){guarded, otherHandle}, "disk", "id", false},
		"other node ID":    {[]func(*view){guarded, otherNodeID}, "disk", "id", true},
		"not recorded":     {[]func(*view){guarded, withoutRecord}, "disk", "id", true},
		"handle not known": {[]func(*view){guarded, withoutHandle, otherHandle}, "disk-2", "id", true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(append(test.changes, deleting)...)
			require.Equal(t, test.handle, v.attachedVolume().Spec.CSI.VolumeHandle)
			require.Equal(t, testDriver, v.attachedVolume().Spec.CSI.Driver)
			require.Equal(t, test.nodeID, v.attachedNodeID())
			require.Equal(t, test.isWhole, v.attachedVolume() == v.volume)
		})
	}
}

// TestWanted: an attached volume keeps its recorded target.
func TestWanted(t *testing.T) {
	require.Equal(t, target{"disk", "id-2"}, newView(guarded, otherNodeID).wanted())
	require.Equal(t, target{"disk", "id"}, newView(guarded, withoutNode).wanted())
	require.Equal(t, target{"disk-2", "id"}, newView(guarded, otherHandle).wanted())
	require.Equal(t, target{"disk", "id"}, newView(guarded, otherNodeID, attachedView).wanted())
	require.Equal(t, target{"disk", "id"}, newView(guarded, otherHandle, attachedView).wanted())
	require.Equal(t, target{"disk", "id"}, newView(guarded, withoutHandle, attachedView).wanted())
	require.Equal(t, target{"disk", "id"}, newView(attachedView).wanted())
}

// TestErrorCode: the code of an error is a field of the VolumeError, through wrapped errors.
func TestErrorCode(t *testing.T) {
	require.NoError(t, WithErrorCode(nil, 8))
	require.Equal(t, int32(8), volumeError(WithErrorCode(errNoVolume, 8))["errorCode"])
	require.ErrorIs(t, WithErrorCode(errNoVolume, 8), errNoVolume)
	blank, err := json.Marshal(volumeError(errNoVolume))
	require.NoError(t, err)
	require.Contains(t, string(blank), `"errorCode":null`, "a merge patch removes that of an earlier error")
	require.Nil(t, volumeError(WithErrorCode(errNoVolume, -1))["errorCode"], "the API server refuses it")
}
