package manager_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
)

// TestExportedMethods: a manager has the methods of its documentation alone, and none of its parts.
func TestExportedMethods(t *testing.T) {
	m := reflect.TypeFor[*manager.Manager]()
	var methods []string
	for i := range m.NumMethod() {
		methods = append(methods, m.Method(i).Name)
	}
	require.Equal(t, []string{
		"CompleteVolumesInUse", "FailureCount", // of export_test.go
		"GetMountedVolumesForPod", "GetVolumesInUse", "MarkRemountRequired", "MarkVolumesAsReportedInUse",
		"PlanCount", // of export_test.go
		"Run", "SetNodeLabels", "State", "SubscribeVolumesInUse",
		"VolumeIsAttached", "WaitForAllPodsUnmount", "WaitForAttachAndMount", "WaitForUnmount", "WaitForVolumes",
	}, methods)
	for _, field := range reflect.VisibleFields(m.Elem()) {
		require.False(t, field.IsExported(), field.Name)
	}
}
