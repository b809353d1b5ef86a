package recycler_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/recycler"
)

func TestValidateRecyclerPodTemplate(t *testing.T) {
	require.NoError(t, recycler.ValidateRecyclerPodTemplate(recycler.NewPersistentVolumeRecyclerPodTemplate()))
	for name, change := range map[string]func(*v1.Pod){
		"no volume":      func(p *v1.Pod) { p.Spec.Volumes = nil },
		"no name":        func(p *v1.Pod) { p.Spec.Volumes[0].Name = "" },
		"no container":   func(p *v1.Pod) { p.Spec.Containers = nil },
		"always":         func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyAlways },
		"not mounted":    func(p *v1.Pod) { p.Spec.Containers[0].VolumeMounts = nil },
		"read-only":      func(p *v1.Pod) { p.Spec.Containers[0].VolumeMounts[0].ReadOnly = true },
		"a part":         func(p *v1.Pod) { p.Spec.Containers[0].VolumeMounts[0].SubPath = "a" },
		"some part":      func(p *v1.Pod) { p.Spec.Containers[0].VolumeMounts[0].SubPathExpr = "$(A)" },
		"another volume": func(p *v1.Pod) { p.Spec.Volumes = append([]v1.Volume{{Name: "x"}}, p.Spec.Volumes...) },
	} {
		pod := recycler.NewPersistentVolumeRecyclerPodTemplate()
		change(pod)
		require.ErrorAs(t, recycler.ValidateRecyclerPodTemplate(pod), new(*field.Error), name)
	}
	require.ErrorAs(t, recycler.ValidateRecyclerPodTemplate(nil), new(*field.Error))
}

// TestTemplateScrubs runs the script of the template on a temporary directory.
func TestTemplateScrubs(t *testing.T) {
	for _, program := range []string{"/bin/sh", "find", "ls"} {
		if _, err := exec.LookPath(program); err != nil {
			mounttest.SkipWithout(t, "shell", err)
		}
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "-b", ".c"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "-b", "\n"), nil, 0))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "\n"), nil, 0))
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "link")))

	output, err := scrubScript(dir, "").CombinedOutput()
	require.NoError(t, err, "%s", output)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	require.FileExists(t, outside)
}

// TestTemplateVerifies checks that the script detects entries of any name that find has not
// removed, and directories that it cannot read.
func TestTemplateVerifies(t *testing.T) {
	if _, err := exec.LookPath("/bin/sh"); err != nil {
		mounttest.SkipWithout(t, "shell", err)
	}
	for name, before := range map[string]string{
		"a file":      "find() { : >\"$1/left\"; }; ",
		"a line feed": "find() { : >\"$1/\n\"; }; ",
		"find fails":  "find() { return 1; }; ",
		"ls fails":    "ls() { return 1; }; ",
		"no volume":   "rmdir DIR; ",
	} {
		dir := t.TempDir()
		require.Error(t, scrubScript(dir, strings.ReplaceAll(before, "DIR", dir)).Run(), name)
	}
}

func scrubScript(dir, before string) *exec.Cmd {
	c := recycler.NewPersistentVolumeRecyclerPodTemplate().Spec.Containers[0]
	script := strings.ReplaceAll(c.Args[1], c.VolumeMounts[0].MountPath, dir)
	return exec.Command(c.Command[0], c.Args[0], before+script)
}
