package manager

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/api/resource"
)

func someRecord() record {
	size := resource.MustParse("1Gi")
	v := &actualVolume{
		plugin: "p/q", name: "disk", spec: simSpec("ad-1", 0, 0), traits: traits{attachable: true, deviceMountable: true},
		devicePath: "/dev/x", deviceMountPath: "/mnt", size: &size,
		pods: podMap[*actualPod]{{podA, &actualPod{state: present}}},
	}
	return *recordOf(vol, v, podB)
}

// What was written is what is read; what was killed while writing has no effect.
func TestRecords(t *testing.T) {
	host, err := volume.NewHost(t.TempDir())
	require.NoError(t, err)
	r, err := newRecords(host)
	require.NoError(t, err)
	all, broken := r.read()
	require.Empty(t, all)
	require.Empty(t, broken)
	require.NoError(t, r.remove(vol))

	rec := someRecord()
	for range 2 {
		require.NoError(t, r.write(rec))
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, fileOf(vol)+".tmp"), []byte("{"), 0o600))
	all, broken = r.read()
	require.Empty(t, broken)
	require.Len(t, all, 1)
	require.True(t, sameJSON(t, rec, all[0]))
	require.Equal(t, []podRecord{{"a", "vol"}, {"b", "vol"}}, all[0].Pods)

	v := all[0].volume()
	require.Equal(t, [2]state{uncertain, uncertain}, [2]state{v.attached, v.device})
	require.Equal(t, uncertain, v.stateOf(podB))
	info, err := os.Stat(filepath.Join(r.dir, fileOf(vol)))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	require.NoError(t, r.write(rec))
	require.NoError(t, r.remove(vol))
	require.NoError(t, r.remove(vol))
	all, _ = r.read()
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

// FuzzRecord: whatever is in a file, it is refused or it is a record.
func FuzzRecord(f *testing.F) {
	good, err := json.Marshal(someRecord())
	require.NoError(f, err)
	for _, text := range []string{string(good), "", "{}", "null", "[]", `{"version":1}`, `{"version":1,"volume":"plugin/vol","spec":{"volume":{}}}`,
		strings.Replace(string(good), `"size":"1Gi"`, `"size":"1e999999999"`, 1)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, err := parseRecord(fileOf(vol), text)
		if err != nil {
			require.Less(t, len(err.Error()), 4096)
			return
		}
		require.Equal(t, vol, rec.Volume)
		v := rec.volume()
		require.NotEqual(t, present, v.attached)
		v.isSmaller(&desiredVolume{size: resource.NewQuantity(1, resource.BinarySI)}) // ends
	})
}
