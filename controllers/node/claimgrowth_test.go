package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/claimstatus"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func sizeOf(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

func storageOf(text string) v1.ResourceList {
	if text == "" {
		return nil
	}
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
}

// Sizes and states of a claim of "1Gi" that is being expanded.
const (
	inController         = v1.PersistentVolumeClaimControllerResizeInProgress
	controllerInfeasible = v1.PersistentVolumeClaimControllerResizeInfeasible
	pending              = v1.PersistentVolumeClaimNodeResizePending
	inProgress           = v1.PersistentVolumeClaimNodeResizeInProgress
	infeasible           = v1.PersistentVolumeClaimNodeResizeInfeasible
)

// grownClaim returns the claim that growths of these tests are about.
func grownClaim(capacity, request, allocated string, state v1.ClaimResourceStatus, conditions ...v1.PersistentVolumeClaimConditionType) *v1.PersistentVolumeClaim {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1", ResourceVersion: "7"}}
	claim.Spec.VolumeName, claim.Spec.Resources.Requests = "disk", storageOf(request)
	claim.Status.Capacity, claim.Status.AllocatedResources = storageOf(capacity), storageOf(allocated)
	if state != "" {
		claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: state}
	}
	for _, kind := range conditions {
		claim.Status.Conditions = append(claim.Status.Conditions, v1.PersistentVolumeClaimCondition{Type: kind, Status: v1.ConditionTrue})
	}
	return claim
}

func grownTo(size string) growth { return growth{claim: "1", volume: "disk", size: sizeOf(size)} }

func failedAt(tried string, err error) growth {
	return growth{claim: "1", volume: "disk", tried: resource.MustParse(tried), failure: err}
}

// textOfChange returns a change as text: capacity, state ("-": removed), and conditions with their
// signs.
func textOfChange(c claimstatus.Change) string {
	var parts []string
	if c.Capacity != nil {
		parts = append(parts, c.Capacity.String())
	}
	if c.State != nil && *c.State == "" {
		parts = append(parts, "-")
	} else if c.State != nil {
		parts = append(parts, string(*c.State))
	}
	for _, condition := range c.Set {
		parts = append(parts, "+"+string(condition.Type))
	}
	for _, kind := range c.Remove {
		parts = append(parts, "-"+string(kind))
	}
	return strings.Join(parts, " ")
}

// TestDecideStatus: the change of a claim's status for each state and each result.
func TestDecideStatus(t *testing.T) {
	const fsPending, resizing = v1.PersistentVolumeClaimFileSystemResizePending, v1.PersistentVolumeClaimResizing
	const nodeError, controllerError = v1.PersistentVolumeClaimNodeResizeError, v1.PersistentVolumeClaimControllerResizeError
	const other = v1.PersistentVolumeClaimVolumeModifyingVolume
	errFinal := errors.New("resize2fs failed")
	errBad := fmt.Errorf("ask for less: %w", volume.ErrInfeasible)
	errInUse := fmt.Errorf("expand: %w", volume.ErrFailedPrecondition)
	errSlow := volume.AsTransient(errors.New("timeout"))
	renamed := grownClaim("1Gi", "2Gi", "2Gi", pending)
	renamed.UID = "2"
	rebound := grownClaim("1Gi", "2Gi", "2Gi", pending)
	rebound.Spec.VolumeName = "other"
	huge := grownClaim("1Gi", "2Gi", "2Gi", pending)
	huge.Status.Capacity[v1.ResourceStorage] = resource.MustParse("9e30")
	for name, test := range map[string]struct {
		claim  *v1.PersistentVolumeClaim
		growth growth
		want   string
	}{
		"pending, grown":     {grownClaim("1Gi", "2Gi", "2Gi", pending, fsPending, resizing, other), grownTo("2Gi"), "2Gi - -FileSystemResizePending -Resizing"},
		"in progress, grown": {grownClaim("1Gi", "2Gi", "2Gi", inProgress, nodeError, controllerError), grownTo("2Gi"), "2Gi - -NodeResizeError -ControllerResizeError"},
		"infeasible, grown":  {grownClaim("1Gi", "2Gi", "2Gi", infeasible, nodeError), grownTo("2Gi"), "2Gi - -NodeResizeError"},
		"no state, grown":    {grownClaim("1Gi", "2Gi", "", "", fsPending), grownTo("2Gi"), "2Gi -FileSystemResizePending"},
		"larger than asked":  {grownClaim("1Gi", "2Gi", "2Gi", pending), grownTo("3Gi"), "3Gi -"},

		"controller in progress, grown":        {grownClaim("1Gi", "2Gi", "2Gi", inController, resizing), grownTo("2Gi"), ""},
		"controller infeasible, grown":         {grownClaim("1Gi", "2Gi", "2Gi", controllerInfeasible), grownTo("2Gi"), ""},
		"controller in progress, infeasible":   {grownClaim("1Gi", "2Gi", "2Gi", inController), failedAt("2Gi", errBad), ""},
		"controller infeasible, failed":        {grownClaim("1Gi", "2Gi", "2Gi", controllerInfeasible), failedAt("2Gi", errFinal), ""},
		"state of a later version, grown":      {grownClaim("1Gi", "2Gi", "2Gi", "Later"), grownTo("2Gi"), ""},
		"grown to less than allocated":         {grownClaim("1Gi", "3Gi", "3Gi", pending, fsPending), grownTo("2Gi"), "2Gi"},
		"no state, grown to less than request": {grownClaim("1Gi", "3Gi", "", "", resizing), grownTo("2Gi"), "2Gi"},
		"smaller than the capacity":            {grownClaim("3Gi", "4Gi", "4Gi", pending), grownTo("2Gi"), ""},
		"lowered request, already grown":       {grownClaim("3Gi", "2Gi", "2Gi", pending, fsPending), grownTo("3Gi"), "- -FileSystemResizePending"},
		"no allocated size":                    {grownClaim("1Gi", "2Gi", "", pending), grownTo("2Gi"), "2Gi -"},
		"no allocated size, grown to less":     {grownClaim("1Gi", "3Gi", "", pending), grownTo("2Gi"), "2Gi"},
		"nothing new":                          {grownClaim("2Gi", "2Gi", "2Gi", ""), grownTo("2Gi"), ""},
		"same size, other spelling":            {grownClaim("2048Mi", "2Gi", "2Gi", ""), grownTo("2Gi"), ""},
		"conditions of a later expansion":      {grownClaim("2Gi", "2Gi", "", "", resizing), grownTo("2Gi"), ""},

		"pending, transient":       {grownClaim("1Gi", "2Gi", "2Gi", pending, fsPending), failedAt("2Gi", errSlow), "NodeResizeInProgress"},
		"in progress, transient":   {grownClaim("1Gi", "2Gi", "2Gi", inProgress), failedAt("2Gi", errSlow), ""},
		"infeasible, transient":    {grownClaim("1Gi", "2Gi", "2Gi", infeasible), failedAt("2Gi", errSlow), ""},
		"no state, transient":      {grownClaim("1Gi", "2Gi", "", ""), failedAt("2Gi", errSlow), ""},
		"pending, in use":          {grownClaim("1Gi", "2Gi", "2Gi", pending), failedAt("2Gi", errInUse), "NodeResizeInProgress +NodeResizeError"},
		"pending, final":           {grownClaim("1Gi", "2Gi", "2Gi", pending), failedAt("2Gi", errFinal), "NodeResizeInProgress +NodeResizeError"},
		"in progress, final":       {grownClaim("1Gi", "2Gi", "2Gi", inProgress), failedAt("2Gi", errFinal), "+NodeResizeError"},
		"in progress, final again": {grownClaim("1Gi", "2Gi", "2Gi", inProgress, nodeError), failedAt("2Gi", errFinal), ""},
		"final, lowered request":   {grownClaim("1Gi", "2Gi", "3Gi", inProgress, nodeError), failedAt("3Gi", errFinal), "NodeResizeInfeasible"},
		"pending, infeasible":      {grownClaim("1Gi", "2Gi", "2Gi", pending), failedAt("2Gi", errBad), "NodeResizeInfeasible +NodeResizeError"},
		"infeasible again":         {grownClaim("1Gi", "2Gi", "2Gi", infeasible, nodeError), failedAt("2Gi", errBad), ""},
		"infeasible, final":        {grownClaim("1Gi", "2Gi", "2Gi", infeasible, nodeError), failedAt("2Gi", errFinal), ""},
		"no state, infeasible":     {grownClaim("1Gi", "2Gi", "", ""), failedAt("2Gi", errBad), ""},
		"failed at an older size":  {grownClaim("1Gi", "3Gi", "3Gi", pending), failedAt("2Gi", errBad), ""},
		"nothing to grow":          {grownClaim("1Gi", "2Gi", "2Gi", pending), failedAt("2Gi", volume.ErrNotSupported), ""},
		"failed after a success": {grownClaim("1Gi", "3Gi", "3Gi", pending),
			growth{claim: "1", volume: "disk", size: sizeOf("2Gi"), tried: resource.MustParse("3Gi"), failure: errBad}, "2Gi NodeResizeInfeasible +NodeResizeError"},

		"claim of another UID":    {renamed, grownTo("2Gi"), ""},
		"claim of another volume": {rebound, grownTo("2Gi"), ""},
		"invalid size":            {huge, grownTo("2Gi"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.claim.DeepCopy()
			change := decideStatus(test.claim, test.growth, metav1.Now())
			require.Equal(t, test.want, textOfChange(change))
			require.Equal(t, test.want == "", change.IsEmpty())
			require.Equal(t, before, test.claim, "the claim is shared")
		})
	}
}

// expansion returns the result of an attempt to grow the volume of ns/data, which has a capacity.
func expansion(capacity, size string, err error) manager.Expansion {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	pv.Spec.Capacity = storageOf(capacity)
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "data", UID: "1"}
	return manager.Expansion{Spec: volume.NewSpecFromPersistentVolume(pv, false), NewSize: resource.MustParse(size), Err: err}
}

// TestGrowthOf: an expansion counts for the claim in the claimRef, and with the capacity of the volume
// at most.
func TestGrowthOf(t *testing.T) {
	unbound := expansion("2Gi", "2Gi", nil)
	unbound.Spec.PersistentVolume.Spec.ClaimRef.UID = ""
	free := expansion("2Gi", "2Gi", nil)
	free.Spec.PersistentVolume.Spec.ClaimRef = nil
	for name, test := range map[string]struct {
		expansion manager.Expansion
		want      string // "": ignored
	}{
		"grown":                     {expansion("2Gi", "2Gi", nil), "2Gi"},
		"volume larger":             {expansion("3Gi", "2Gi", nil), "2Gi"},
		"request above the storage": {expansion("1Gi", "3Gi", nil), "1Gi"},
		"no capacity":               {expansion("", "3Gi", nil), "0"},
		"failed":                    {expansion("2Gi", "2Gi", errors.New("failed")), "<nil>"},
		"invalid size":              {expansion("2Gi", "9e30", nil), ""},
		"invalid capacity":          {expansion("9e30", "2Gi", nil), ""},
		"not bound":                 {unbound, ""},
		"no claim":                  {free, ""},
		"no volume":                 {manager.Expansion{}, ""},
	} {
		key, g, ok := growthOf(test.expansion)
		require.Equal(t, test.want != "", ok, name)
		if ok {
			require.Equal(t, test.want, g.size.String(), name)
			require.Equal(t, "ns/data", key.String(), name)
		}
	}
}

// TestUnusedGrowthsAreDropped: a ClaimStatus keeps no result of a claim without a pod, apart from
// those that it has not handled yet.
func TestUnusedGrowthsAreDropped(t *testing.T) {
	source, err := NewSource(Config{Cluster: apitest.NewServer(apitest.Config{}).Direct(), Node: "node-1"})
	require.NoError(t, err)
	c, err := NewClaimStatus(ClaimStatusConfig{Source: source})
	require.NoError(t, err)
	for name, reported := range map[string]reportedGrowth{
		"handled": {growth: grownTo("2Gi")}, "success": {growth: grownTo("2Gi"), success: true}, "failure": {growth: failedAt("2Gi", errors.New("failed"))},
	} {
		c.growths[api.Key{Namespace: "ns", Name: name}] = &reported
	}
	c.Report(expansion("2Gi", "2Gi", nil))
	var kept []string
	for key := range c.growths {
		kept = append(kept, key.Name)
	}
	require.ElementsMatch(t, []string{"success", "failure", "data"}, kept)
}

// TestGrowthsAddUp: a later result does not make the volume of a claim smaller, and says nothing about
// another claim.
func TestGrowthsAddUp(t *testing.T) {
	require.Equal(t, "3Gi", grownTo("2Gi").after(grownTo("3Gi")).size.String())
	require.Equal(t, "3Gi", failedAt("4Gi", errors.New("failed")).after(grownTo("3Gi")).size.String())
	require.Equal(t, "4Gi", grownTo("4Gi").after(grownTo("3Gi")).size.String())
	other := grownTo("3Gi")
	other.claim = "2"
	require.Equal(t, "2Gi", grownTo("2Gi").after(other).size.String())
}

// TestStatusPatch: a patch names the version of the claim, and only the fields that change.
func TestStatusPatch(t *testing.T) {
	now := metav1.NewTime(time.Unix(0, 0))
	text := func(claim *v1.PersistentVolumeClaim, g growth) string {
		data, err := decideStatus(claim, g, now).Patch(claim)
		require.NoError(t, err)
		require.True(t, json.Valid(data))
		return string(data)
	}
	require.JSONEq(t, `{"metadata":{"resourceVersion":"7"},"status":{"capacity":{"storage":"2Gi"},
		"allocatedResourceStatuses":{"storage":null},"conditions":[{"$patch":"delete","type":"Resizing"}]}}`,
		text(grownClaim("1Gi", "2Gi", "2Gi", pending, v1.PersistentVolumeClaimResizing), grownTo("2Gi")))
	require.JSONEq(t, `{"metadata":{"resourceVersion":"7"},"status":{"allocatedResourceStatuses":{"storage":"NodeResizeInProgress"}}}`,
		text(grownClaim("1Gi", "2Gi", "2Gi", pending), failedAt("2Gi", volume.ErrTransient)))
}

// TestConditionMessage: the error of a plugin becomes one line of limited length.
func TestConditionMessage(t *testing.T) {
	message := messageOf(errors.New("a\nb\xff" + strings.Repeat("x", 10000)))
	require.True(t, strings.HasPrefix(message, "failed to expand the volume on its node: a b\uFFFD"))
	require.LessOrEqual(t, len(message), 1024)
}
