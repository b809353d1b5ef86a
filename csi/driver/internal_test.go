package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/internal/redact"
	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestCodes is the table of the package documentation.
func TestCodes(t *testing.T) {
	size := field.Invalid(field.NewPath("claim", "spec", "resources", "requests").Key("storage"), "1", "too large")
	tests := map[codes.Code][]error{
		codes.OK:                 {nil},
		codes.InvalidArgument:    {field.Required(field.NewPath("a"), ""), &mount.InputError{}, volume.ErrNotSupported, volume.ErrInfeasible},
		codes.OutOfRange:         {fmt.Errorf("%w: %w", size, volume.ErrInfeasible)},
		codes.ResourceExhausted:  {volume.ErrReschedule, volume.ErrMaxVolumeCountExceeded},
		codes.NotFound:           {volume.ErrNotMounted, os.ErrNotExist, coded(codes.NotFound, recordstore.ErrNotRegular)},
		codes.AlreadyExists:      {volume.ErrAlreadyMounted},
		codes.FailedPrecondition: {volume.ErrFailedPrecondition, &volume.DanglingAttachError{}, &volume.IgnoredError{}},
		codes.Unavailable:        {volume.ErrTransient, volume.AsTransient(volume.ErrInfeasible)},
		codes.Aborted:            {volume.ErrUncertain, volume.AsUncertain(volume.ErrTransient), volume.AsUncertain(coded(codes.OutOfRange, recordstore.ErrNotRegular))},
		codes.DeadlineExceeded:   {context.DeadlineExceeded, volume.AsUncertain(context.DeadlineExceeded)},
		codes.Canceled:           {context.Canceled, volume.AsTransient(context.Canceled)},
		codes.Internal:           {errors.New("final")},
	}
	for code, errs := range tests {
		for _, err := range errs {
			require.Equal(t, code, codeOf(err), "%v", err)
			if err != nil {
				require.Equal(t, code, codeOf(fmt.Errorf("wrapped: %w", err)), "%v", err)
			}
		}
	}
}

// TestMessageHidesSecrets: neither a secret nor its beginning or its end is in a text.
func TestMessageHidesSecrets(t *testing.T) {
	const secret, token = "correct-horse-battery", "eyJhbGciOiJSUzI1NiJ9"
	flags := &csipb.VolumeCapability{AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{
		MountFlags: []string{"hard", "username=me,Password=hunter2", "nfsvers=4.1"},
	}}}
	req := &csipb.NodePublishVolumeRequest{Secrets: map[string]string{"a": secret, "b": "", "c": "horse"}, VolumeContext: map[string]string{"csi.storage.k8s.io/serviceAccount.tokens": token}, VolumeCapability: flags}
	secrets := redact.Secrets(req)
	for _, text := range []string{secret, token, "hunter2", "horse", secret[:12] + "...", "..." + secret[10:], token[:9]} {
		message := redaction.Message(fmt.Sprintf("mount -o %q,nfsvers=4.1 as me: failed", text), secrets)
		require.NotContains(t, message, strings.Trim(text, "."))
		require.Contains(t, message, "nfsvers=4.1 as me: failed")
	}
	more := &csipb.CreateVolumeRequest{VolumeCapabilities: []*csipb.VolumeCapability{flags}}
	require.Subset(t, []string{"hunter2"}, redact.Secrets(more))
	flags.GetMount().MountFlags = []string{`user=me,password="hunter2,swordfish-two",hard`}
	_, err := mount.ParseOptions([]string{`password="hunter2,swordfish-two"`}, mount.Allow{})
	message := redaction.Message(err.Error(), redact.Secrets(more))
	require.NotContains(t, message, "hunter2")
	require.NotContains(t, message, "swordfish")
	flags.GetMount().MountFlags = []string{"user=me,password=hunter2,swordfish-two"}
	message = redaction.Message(`option "password=hunter2,swordfish-two": failed`, redact.Secrets(more))
	require.NotContains(t, message, "swordfish")
	require.Equal(t, "a b ?", redaction.Message("a\nb\x1b\xff"[:3]+" \xff", nil))
	require.LessOrEqual(t, len(redaction.Message(strings.Repeat("ä", 1<<16), nil)), 1024)
}

// TestMessageHidesQuotedSecrets: nor is a secret whose quoted form has other characters.
func TestMessageHidesQuotedSecrets(t *testing.T) {
	for name, secret := range map[string]string{
		"quote": `pa"ss-word`, "backslash": `pa\ss-word`, "line break": "pass-\nword-two", "control character": "pass\x1b[2Kword",
		"not ASCII": "päss-wörd", "HTML": "pass<&>word", "not UTF-8": "pass\xffword", "all": "p\"a\\s\ns\x00w\xffö<",
	} {
		t.Run(name, func(t *testing.T) {
			req := &csipb.NodePublishVolumeRequest{Secrets: map[string]string{"a": secret}}
			quoted := strconv.Quote(secret)
			encoded, err := json.Marshal(secret)
			require.NoError(t, err)
			forms := []string{secret, quoted, strconv.Quote(quoted), strconv.Quote(strconv.Quote(quoted)), string(encoded), fmt.Sprintf("%+q", secret), strconv.Quote("user:" + secret), quoted[:10] + "...", "..." + quoted[len(quoted)-9:]}
			for _, form := range forms {
				for _, err := range []error{fmt.Errorf("login with %s failed", form), status.Error(codes.Internal, "login with "+form+" failed")} {
					var log strings.Builder
					d := &driver{config: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
					_, answer := d.intercept(t.Context(), req, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, err })
					for _, text := range []string{status.Convert(answer).Message(), log.String()} {
						require.Regexp(t, `login with [^ ]*\*\*\*stripped\*\*\*[^ ]* failed`, text)
						for _, part := range []string{"pa", "ss", "word", "wörd", "w\\u00f6rd"} {
							require.NotContains(t, strings.ReplaceAll(text, "***stripped***", ""), part, form)
						}
					}
				}
			}
		})
	}
}

// TestStore: a record is replaced as a whole, and an invalid file is an error that costs no other record.
// TestMissingStore: a directory that is missing, as when its file system is not mounted, is no empty one.
func TestMissingStore(t *testing.T) {
	dir := t.TempDir()
	s := newStore[string](dir, "a/b")
	require.NoError(t, s.open())
	require.NoError(t, s.write("key", "v"))
	require.NoError(t, os.Rename(dir+"/a", dir+"/away"))
	_, _, err := s.all()
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = s.hasBroken("key")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, s.write("key", "w"), fs.ErrNotExist)
	require.ErrorIs(t, s.remove("key"), fs.ErrNotExist)
	require.NoDirExists(t, dir+"/a")
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	s := newStore[map[string]string](dir, "a/b")
	require.NoError(t, s.open())
	require.NoError(t, s.open())
	none, err := s.read("key")
	require.NoError(t, err)
	require.Nil(t, none)
	require.NoError(t, s.write("key", map[string]string{"v": "1"}))
	require.NoError(t, s.write("key", map[string]string{"v": "2"}))
	require.NoError(t, s.write("other/../key", map[string]string{"v": "3"}))
	got, err := s.read("key")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"v": "2"}, *got)
	file := dir + "/a/b/" + fileName("key")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	require.NoError(t, os.WriteFile(file+newSuffix, []byte("{"), 0o600)) // of a run that was killed
	records, broken, err := s.all()
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Len(t, records, 2)

	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"empty": "", "cut": string(whole[:10]), "another version": strings.Replace(string(whole), `"version":1`, `"version":2`, 1),
		"another key": strings.Replace(string(whole), `"key"`, `"kay"`, 1), "large": strings.Repeat(" ", maxRecord) + string(whole),
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := s.read("key")
		require.ErrorContains(t, err, file, name)
		records, broken, err := s.all()
		require.NoError(t, err, name)
		require.Len(t, broken, 1, name)
		require.Len(t, records, 1, name)
	}
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	_, err = s.read("key")
	require.ErrorIs(t, err, recordstore.ErrNotRegular)
	require.NoError(t, os.Remove(file))
	require.NoError(t, s.remove("key"))
	require.Error(t, s.write("large", map[string]string{"v": strings.Repeat("a", maxRecord)}))
}

func topologyDriver(segments ...Segment) *driver { return &driver{config: Config{Topology: segments}} }

// TestAccessible turns node affinity into topologies.
func TestAccessible(t *testing.T) {
	d := topologyDriver(Segment{Key: "example.com/node", Value: "a"}, Segment{Key: "example.com/zone", Label: "zone", Value: "z"})
	in := func(key string, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}
	}
	volumeOf := func(terms ...v1.NodeSelectorTerm) *v1.PersistentVolume {
		pv := &v1.PersistentVolume{}
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
		return pv
	}
	term := func(r ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: r}
	}
	got, err := d.accessible(&v1.PersistentVolume{})
	require.NoError(t, err)
	require.Empty(t, got)
	got, err = d.accessible(volumeOf(term(in(v1.LabelHostname, "a", "b"), in("zone", "z")), term(in("zone", "y"))))
	require.NoError(t, err)
	require.Equal(t, []map[string]string{
		{"example.com/node": "a", "example.com/zone": "z"}, {"example.com/node": "b", "example.com/zone": "z"}, {"example.com/zone": "y"},
	}, got)
	many := make([]string, mostTopologies)
	for name, pv := range map[string]*v1.PersistentVolume{
		"no terms":        volumeOf(),
		"an empty term":   volumeOf(term()),
		"unknown label":   volumeOf(term(in("rack", "1"))),
		"operator":        volumeOf(term(v1.NodeSelectorRequirement{Key: "zone", Operator: v1.NodeSelectorOpExists})),
		"no values":       volumeOf(term(in("zone"))),
		"fields":          volumeOf(v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{in("metadata.name", "a")}}),
		"too many":        volumeOf(term(in("zone", many...), in(v1.LabelHostname, "a", "b"))),
		"too many in all": volumeOf(term(in("zone", many...)), term(in("zone", "a"))),
	} {
		_, err := d.accessible(pv)
		require.Error(t, err, name)
	}
}
