package record_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	vol  = v1.UniqueVolumeName("plugin/vol")
	podA = types.UID("a")
	podB = types.UID("b")
)

// exampleRecord returns the record of a volume that is up in a pod, before its set-up in another.
func exampleRecord() record.Record {
	size := resource.MustParse("1Gi")
	spec := volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
			CSI: &v1.CSIPersistentVolumeSource{Driver: "p", VolumeHandle: "disk"},
		}},
	}, false)
	v := &actual.Volume{
		Plugin: "p/q", Name: "disk", Spec: spec, Traits: naming.Traits{Attachable: true, DeviceMountable: true},
		DevicePath: "/dev/x", DeviceMountPath: "/mnt", Size: &size,
		Pods: naming.PodMap[*actual.Pod]{{Key: naming.PodKey{Pod: podA, Name: "vol"}, Value: &actual.Pod{State: actual.Present}}},
	}
	return *record.Of(vol, v, naming.PodKey{Pod: podB, Name: "vol"})
}

// TestRecordIsReadUnchanged: a written record is read unchanged, and an unfinished temporary file has no effect.
func TestRecordIsReadUnchanged(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	r, err := record.NewDirectory(host)
	require.NoError(t, err)
	all, broken := r.Read()
	require.Empty(t, all)
	require.Empty(t, broken)
	require.NoError(t, r.Remove(vol))

	rec := exampleRecord()
	for range 2 {
		require.NoError(t, r.Write(rec))
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.Path, record.FileName(vol)+".tmp"), []byte("{"), 0o600))
	all, broken = r.Read()
	require.Empty(t, broken)
	require.Len(t, all, 1)
	require.True(t, sameJSON(t, rec, all[0]))
	require.Equal(t, []record.Pod{{UID: podA, Name: "vol"}, {UID: podB, Name: "vol"}}, all[0].Pods)

	v := all[0].ActualVolume()
	require.Equal(t, [2]actual.State{actual.Uncertain, actual.Uncertain}, [2]actual.State{v.Attached, v.Device})
	require.Equal(t, actual.Uncertain, v.StateOf(naming.PodKey{Pod: podB, Name: "vol"}))
	info, err := os.Stat(filepath.Join(r.Path, record.FileName(vol)))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	require.NoError(t, r.Write(rec))
	require.NoError(t, r.Remove(vol))
	require.NoError(t, r.Remove(vol))
	all, _ = r.Read()
	require.Empty(t, all)
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	require.NoError(t, err)
	y, err := json.Marshal(b)
	require.NoError(t, err)
	return string(x) == string(y)
}

// FuzzRecord: any content of a file is either refused or a record.
func FuzzRecord(f *testing.F) {
	good, err := json.Marshal(exampleRecord())
	require.NoError(f, err)
	for _, text := range []string{string(good), "", "{}", "null", "[]", `{"version":1}`, `{"version":1,"volume":"plugin/vol","spec":{"volume":{}}}`,
		strings.Replace(string(good), `"size":"1Gi"`, `"size":"1e999999999"`, 1)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, err := record.Parse(record.FileName(vol), text)
		if err != nil {
			require.Less(t, len(err.Error()), 4096)
			return
		}
		require.Equal(t, vol, rec.Volume)
		v := rec.ActualVolume()
		require.NotEqual(t, actual.Present, v.Attached)
		planning.NeedsExpansion(v, &desired.Volume{Size: resource.NewQuantity(1, resource.BinarySI)}) // ends
	})
}
