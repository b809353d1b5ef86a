package content_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tokens keeps the tokens of pods, and renews them in time.
type tokens struct {
	// request asks for a token: the TokenRequest of an API server, for example.
	request func(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) (token, error)
	now     func() time.Time

	mu   sync.Mutex
	kept map[tokenKey]token
}

type token struct {
	text    []byte
	expires time.Time
}

// A tokenKey is all that a token depends on. Forget has those go whose pod has gone.
type tokenKey struct {
	pod      types.UID
	audience string
	seconds  int64
}

// GetServiceAccountToken implements content.TokenGetter.
func (t *tokens) GetServiceAccountToken(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) ([]byte, error) {
	key := tokenKey{pod.UID, source.Audience, *source.ExpirationSeconds}
	old := t.get(key)
	if t.now().Before(renewal(old, key.seconds)) {
		return old.text, nil
	}
	renewed, err := t.request(ctx, pod, source)
	switch {
	case err == nil:
		t.put(key, renewed)
		return renewed.text, nil
	case t.now().Before(old.expires):
		return old.text, nil // the next SetUp tries again
	}
	return nil, err
}

// renewal is when 80 % of the token's life are over, but at the latest after a day.
func renewal(old token, seconds int64) time.Time {
	life := time.Duration(seconds) * time.Second
	issued := old.expires.Add(-life)
	return issued.Add(min(life*8/10, 24*time.Hour))
}

func (t *tokens) get(key tokenKey) token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[key]
}

func (t *tokens) put(key tokenKey, renewed token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept[key] = renewed
}

// Forget drops the tokens of a pod that has gone.
func (t *tokens) Forget(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.kept {
		if key.pod == pod {
			delete(t.kept, key)
		}
	}
}

// A server makes tokens that last an hour, unless it is down.
type server struct {
	time time.Time
	made int
	down bool
}

func (s *server) now() time.Time { return s.time }

func (s *server) request(_ context.Context, _ *v1.Pod, source *v1.ServiceAccountTokenProjection) (token, error) {
	if s.down {
		return token{}, errors.New("the server is down")
	}
	s.made++
	life := time.Duration(*source.ExpirationSeconds) * time.Second
	return token{fmt.Appendf(nil, "token %d", s.made), s.time.Add(life)}, nil
}

func ExampleTokenGetter() {
	root, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	host, err := volume.NewHost(context.Background(), root)
	if err != nil {
		log.Fatal(err)
	}
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &server{time: begin}
	getter := &tokens{request: s.request, now: s.now, kept: map[tokenKey]token{}}
	plugin := content.NewProjected(content.Config{
		Mounter: mounttest.NewFake(mount.Config{}), // mount.New(mount.Config{}) for real
		Tokens:  getter,
	})
	if err := plugin.Init(context.Background(), host); err != nil {
		log.Fatal(err)
	}

	spec := volume.NewSpecFromVolume(&v1.Volume{Name: "token", VolumeSource: v1.VolumeSource{
		Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{
			ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}, // for an hour
		}}},
	}})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "1234"}}
	mounter, err := plugin.NewMounter(spec, pod)
	if err != nil {
		log.Fatal(err)
	}
	show := func() {
		err := mounter.SetUp(context.Background(), volume.MounterArgs{}) // as often as each minute
		data, _ := os.ReadFile(filepath.Join(mounter.GetPath(), "token"))
		fmt.Printf("%v: %s, %v\n", s.time.Sub(begin), data, err)
	}
	for _, minutes := range []time.Duration{0, 47, 48, 49} {
		s.time = begin.Add(minutes * time.Minute)
		show()
	}
	s.down = true // when the second token is to be renewed, and for a while
	s.time = begin.Add(100 * time.Minute)
	show()
	s.down = false
	show()

	unmounter, err := plugin.NewUnmounter("token", pod.UID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("down:", unmounter.TearDown(context.Background()))
	getter.Forget(pod.UID)
	// Output:
	// 0s: token 1, <nil>
	// 47m0s: token 1, <nil>
	// 48m0s: token 2, <nil>
	// 49m0s: token 2, <nil>
	// 1h40m0s: token 2, <nil>
	// 1h40m0s: token 3, <nil>
	// down: <nil>
}
