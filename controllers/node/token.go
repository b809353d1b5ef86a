package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/volumekit/volumekit/util/keylock"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A tokenKey holds the parameters of a token request.
type tokenKey struct {
	pod            types.UID
	serviceAccount string
	audience       string
	seconds        int64 // requested
}

// String returns a text that no other key has.
func (k tokenKey) String() string {
	return fmt.Sprintf("%q %q %q %d", k.pod, k.serviceAccount, k.audience, k.seconds)
}

// A token is a token of a pod. The API server may shorten or extend the requested life.
type token struct {
	text           []byte
	expires, renew time.Time
}

// tokens is the cache of the tokens of present pods.
type tokens struct {
	request   func(ctx context.Context, pod *v1.Pod, key tokenKey) (token, error)
	isPresent func(pod types.UID) bool
	locks     *keylock.Map // one request for a key at a time
	logger    *slog.Logger

	mu   sync.Mutex
	kept map[tokenKey]token
}

// defaultTokenSeconds is the default of the expirationSeconds of a volume, in seconds.
const defaultTokenSeconds = 3600

// GetServiceAccountToken implements content.TokenGetter: it returns a token that is bound to the
// pod. It calls the API server for the first token, and when 80 % of the life of the last one, or 24
// hours, are over. If this call fails it returns the last token until that token expires, and then
// the error. It fails for a pod that is not present.
func (s *Source) GetServiceAccountToken(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) ([]byte, error) {
	key := tokenKey{pod.UID, pod.Spec.ServiceAccountName, source.Audience, defaultTokenSeconds}
	if key.serviceAccount == "" {
		key.serviceAccount = "default"
	}
	if source.ExpirationSeconds != nil {
		key.seconds = *source.ExpirationSeconds
	}
	return s.tokens.get(ctx, pod, key)
}

// get returns a token from memory, or requests one if the time to renew has come.
func (t *tokens) get(ctx context.Context, pod *v1.Pod, key tokenKey) ([]byte, error) {
	if kept := t.find(key); time.Now().Before(kept.renew) {
		return kept.text, nil
	}
	unlock, err := t.locks.Lock(ctx, key.String())
	if err != nil {
		return nil, err
	}
	defer unlock()
	last := t.find(key)
	if time.Now().Before(last.renew) {
		return last.text, nil
	}
	if !t.isPresent(key.pod) {
		return nil, fmt.Errorf("token for pod %s/%s: the pod has gone", pod.Namespace, pod.Name)
	}
	next, err := t.request(ctx, pod, key)
	switch {
	case err == nil:
		t.keep(key, next)
		return next.text, nil
	case time.Now().Before(last.expires):
		t.logger.Warn("renewal of a token failed, the old one is still valid", "pod", pod.Namespace+"/"+pod.Name,
			"serviceAccount", key.serviceAccount, "expires", last.expires, "err", err)
		return last.text, nil
	}
	return nil, fmt.Errorf("token for service account %s/%s: %w", pod.Namespace, key.serviceAccount, err)
}

func (t *tokens) find(key tokenKey) token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[key]
}

// keep stores a token, unless its pod was removed during the request.
func (t *tokens) keep(key tokenKey, next token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isPresent(key.pod) {
		t.kept[key] = next
	}
}

// forget drops the tokens of a pod that is no longer present.
func (t *tokens) forget(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.kept {
		if key.pod == pod {
			delete(t.kept, key)
		}
	}
}

// mostTokenLife is the age at which a token is renewed at the latest.
const mostTokenLife = 24 * time.Hour

// requestToken requests a token that is bound to the pod.
func (s *Source) requestToken(ctx context.Context, pod *v1.Pod, key tokenKey) (token, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	answer, err := s.config.Cluster.ServiceAccounts(pod.Namespace).CreateToken(ctx, key.serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return token{}, err
	}
	if answer == nil || answer.Status.Token == "" {
		return token{}, errors.New("the API server returned an empty token")
	}
	seconds := key.seconds
	if answer.Spec.ExpirationSeconds != nil {
		seconds = *answer.Spec.ExpirationSeconds
	}
	life := time.Duration(seconds) * time.Second
	expires := answer.Status.ExpirationTimestamp.Time
	renew := expires.Add(-life).Add(min(life/10*8, mostTokenLife))
	return token{text: []byte(answer.Status.Token), expires: expires, renew: renew}, nil
}
