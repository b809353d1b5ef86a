package docker

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// TestBrokenRecord: an unreadable file costs its volume alone, and nothing takes its name.
func TestBrokenRecord(t *testing.T) {
	r := newFakeRig(t)
	require.NoError(t, r.create("broken", nil))
	require.NoError(t, r.create("data", nil))
	_, err := r.mount("broken", "a")
	require.NoError(t, err)
	r.stop()
	for _, file := range append(r.records()[:1], r.uses()...) {
		whole, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, text := range []string{
			"", "{", `{"version":2}`, `{"version":1,"name":"data","state":"ready"}`, `{"version":1,"name":"broken","state":"x","users":{"a":{}}}`,
			`{"version":1,"name":"broken","state":"creating","options":{"size":"x"},"users":{"a":{"mounts":-1}}}`,
		} {
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			r.start()
			for _, err := range []error{r.create("broken", nil), r.unmount("broken", "a"), r.remove("broken")} {
				require.ErrorContains(t, err, "unreadable file", text)
			}
			_, err := r.get("broken")
			require.Error(t, err)
			_, err = r.mount("data", "a")
			require.NoError(t, err)
			require.NoError(t, r.unmount("data", "a"))
			r.stop()
		}
		require.NoError(t, os.WriteFile(file, whole, 0o600))
	}
	r.start()
	require.NoError(t, r.unmount("broken", "a"))
	require.NoError(t, r.remove("broken"))
}

// TestHostileRequests: a request that no daemon makes is an error, and changes nothing.
func TestHostileRequests(t *testing.T) {
	r := newFakeRig(t)
	require.NoError(t, r.create("data", nil))
	_, err := r.mount("data", "a")
	require.NoError(t, err)
	before := r.content()
	calls := []string{"Create", "Remove", "Mount", "Unmount", "Path", "Get"}
	for _, name := range []string{"", ".", "..", "../data", "a/b", "/", "-a", "a b", "a\x00", "\n", "data\n", "ä", strings.Repeat("a", 129), "mounts/../data"} {
		for _, call := range calls {
			_, err := r.call(t.Context(), "VolumeDriver."+call, request{Name: name, ID: "x"})
			require.ErrorContains(t, err, "name: ", "%s %q", call, name)
		}
	}
	for _, id := range []string{"", "a\nb", "a\x7f", strings.Repeat("i", 129)} {
		for _, call := range []string{"Mount", "Unmount"} {
			_, err := r.call(t.Context(), "VolumeDriver."+call, request{Name: "data", ID: id})
			require.ErrorContains(t, err, "id: ", "%s %q", call, id)
		}
	}
	for name, body := range map[string]string{
		"large": `{"Name": "` + strings.Repeat("a", 2<<20) + `"}`, "cut": `{"Name": "data"`, "no JSON": "Name=data",
		"options": `{"Name": "data", "Opts": {"o": "` + strings.Repeat("key=a,", 1000) + `"}}`, "another type": `{"Name": 1}`, "two": `{"Name": "x"} {"Name": "y"}`, "deep": strings.Repeat("[", 100_000),
	} {
		for _, call := range calls {
			status, text, err := r.post(t.Context(), "VolumeDriver."+call, []byte(body))
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, status, name)
			require.Less(t, len(text), 1100)
		}
	}
	status, _, err := r.post(t.Context(), "VolumeDriver.Format", []byte("{}"))
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)
	resp, err := r.client.Get("http://driver/VolumeDriver.List")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	require.Equal(t, before, r.content())
	require.Equal(t, []string{"data"}, r.names())
}

// TestPanic: a panic of a plugin is an error of its call.
func TestPanic(t *testing.T) {
	r := newFakeRig(t, func(c *Config) { c.Share = func(string) (v1.PersistentVolumeSource, error) { panic("defect") } })
	require.ErrorContains(t, r.create("data", map[string]string{"share": "x"}), "defect: its log has the stack")
	require.NoError(t, r.create("data", nil))
	r.stop()
	r.config.Plugin = panicking{r.plugin}
	r.start()
	_, err := r.mount("data", "a")
	require.NoError(t, err)
	_, err = r.get("data")
	require.NoError(t, err, "the measurement panics in the background")
	require.ErrorContains(t, r.unmount("data", "a"), "defect: its log has the stack")
	r.restart() // takes it down in the background
}

// A panicking plugin cannot unmount.
type panicking struct{ *volumetest.FakePlugin }

func (panicking) NewUnmounterAt(string) (volume.Unmounter, error) { panic("defect") }

// TestSecrets: neither errors nor the log have the values of options whose names look secret.
func TestSecrets(t *testing.T) {
	r := newFakeRig(t)
	options := map[string]string{"apiToken": "hidden-1", "o": "username=u,password=hidden-2"}
	require.NoError(t, r.create("data", options))
	r.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: fmt.Errorf("%w: hidden-1 password=hidden-2", volume.ErrTransient), Times: 1})
	_, err := r.mount("data", "a")
	require.ErrorContains(t, err, "stripped")
	require.NotContains(t, err.Error(), "hidden-")
	require.NotContains(t, r.status("data", "error"), "hidden-")
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("hidden-1"), Times: 1})
	require.NotContains(t, r.create("other", options).Error(), "hidden-")

	// The volume of a failed call is gone with its options.
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
	require.Error(t, r.create("gone", options))
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("login with hidden-1"), Times: 1})
	_, err = r.mount("gone", "a")
	require.ErrorContains(t, err, "login with")
	require.NotContains(t, err.Error(), "hidden-")

	r = newFakeRig(t, func(c *Config) { c.Parameters = map[string]string{"adminSecret": "hidden-3"} })
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("login with hidden-3"), Times: 1})
	err = r.create("data", nil)
	require.ErrorContains(t, err, "login with")
	require.NotContains(t, err.Error(), "hidden-")
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
	require.Error(t, r.create("data", nil))
	r.stop()
	r.config.Parameters = nil
	r.start()
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("login with hidden-3"), Times: 1})
	_, err = r.mount("data", "a")
	require.ErrorContains(t, err, "login with")
	require.NotContains(t, err.Error(), "hidden-", "the record had it")
}

func FuzzParse(f *testing.F) {
	f.Add(`{"version":1,"name":"data","state":"creating","options":{"size":"1Gi"},"created":"2026-01-01T00:00:00Z"}`)
	f.Add(`{"version":1,"name":"data","up":true,"users":{"a":{"mounts":1,"since":"2026-01-01T00:00:00Z","caller":"1:2 x"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		rec, err := parse[record]("data", []byte(text), nil)
		if err == nil {
			require.Equal(t, "data", rec.Name)
			if rec.State != creating {
				_, err := rec.spec()
				require.NoError(t, err)
			}
		}
		use, err := parse[usage]("data", []byte(text), nil)
		if err == nil {
			require.Equal(t, "data", use.Name)
		}
	})
}
