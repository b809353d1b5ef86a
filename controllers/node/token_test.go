package node_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tokenPod returns a pod of the service account "builder".
func tokenPod() *v1.Pod {
	p := pod("a")
	p.Spec.ServiceAccountName = "builder"
	return p
}

// startWithPod starts the source with the pod of tokenPod.
func (w *world) startWithPod() {
	w.Helper()
	w.put(tokenPod())
	w.start()
	w.takeCalls()
}

// token returns the text of a token of the pod, or the error.
func (w *world) token(audience string, life time.Duration) (string, error) {
	seconds := int64(life / time.Second)
	text, err := w.GetServiceAccountToken(w.Context(), w.known(tokenPod()), &v1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &seconds})
	return string(text), err
}

// requireToken returns a token for the audience "vault", and requires the calls since the last one.
func (w *world) requireToken(calls ...string) string {
	w.Helper()
	got, err := w.token("vault", time.Hour)
	require.NoError(w, err)
	require.NotEmpty(w, got)
	require.ElementsMatch(w, calls, w.takeCalls())
	return got
}

const tokenCall = "create serviceaccounts/token ns/builder"

// A tokenClaims holds the claims of a token.
type tokenClaims struct {
	Audiences  []string `json:"aud"`
	Subject    string   `json:"sub"`
	From       int64    `json:"iat"`
	Until      int64    `json:"exp"`
	Kubernetes struct {
		Bound struct {
			Kind, Name string
			UID        types.UID
		}
	} `json:"kubernetes.io"`
}

// claimsOf returns the claims of a token.
func claimsOf(t *testing.T, token string) (claims tokenClaims) {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &claims))
	return claims
}

// TestTokenRequests: a token has the requested audience and life, and is bound to the pod.
func TestTokenRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startWithPod()
		for _, test := range []struct {
			audience string
			life     time.Duration
			want     string
		}{{"vault", time.Hour, "vault"}, {"", 10 * time.Minute, "https://kubernetes.default.svc"}} {
			text, err := w.token(test.audience, test.life)
			require.NoError(t, err)
			claims := claimsOf(t, text)
			require.Equal(t, []string{test.want}, claims.Audiences)
			require.Equal(t, "system:serviceaccount:ns:builder", claims.Subject)
			require.Equal(t, int64(test.life/time.Second), claims.Until-claims.From)
			bound := claims.Kubernetes.Bound
			require.Equal(t, []string{"Pod", "a", string(w.uid("a"))}, []string{bound.Kind, bound.Name, string(bound.UID)})
		}
	})
}

// TestTokenDefaults: a volume without a lifetime, of a pod without a service account, gets the
// defaults of the API server.
func TestTokenDefaults(t *testing.T) {
	inWorld(t, func(w *world) {
		bare := pod("bare")
		bare.Spec.ServiceAccountName = "default" // the API server's default
		w.put(bare)
		w.start()
		w.takeCalls()
		bare.Spec.ServiceAccountName = ""
		text, err := w.GetServiceAccountToken(w.Context(), w.known(bare), &v1.ServiceAccountTokenProjection{})
		require.NoError(t, err)
		claims := claimsOf(t, string(text))
		require.Equal(t, "system:serviceaccount:ns:default", claims.Subject)
		require.Equal(t, int64(3600), claims.Until-claims.From)
	})
}

// TestTokens pins the calls for tokens: one for a pod, an audience and a life, and one when 80 % of
// the life are over.
func TestTokens(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startWithPod()
		first := w.requireToken(tokenCall)
		require.Equal(t, first, w.requireToken())
		for _, audience := range []string{"", "other"} {
			_, err := w.token(audience, 10*time.Minute)
			require.NoError(t, err)
			require.Equal(t, []string{tokenCall}, w.takeCalls())
		}
		w.forgetRenewals(48*time.Minute - time.Second)
		require.Equal(t, first, w.requireToken())
		time.Sleep(time.Second)
		require.NotEqual(t, first, w.requireToken(tokenCall))
	})
}

// forgetRenewals sleeps, and drops the renewals of watches meanwhile from the calls.
func (w *world) forgetRenewals(pause time.Duration) {
	time.Sleep(pause)
	synctest.Wait()
	w.takeCalls()
}

// TestTokenOfADay: a token is renewed after a day, however long it lasts.
func TestTokenOfADay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startWithPod()
		first, err := w.token("vault", 1000*time.Hour)
		require.NoError(t, err)
		time.Sleep(24*time.Hour - time.Second)
		same, err := w.token("vault", 1000*time.Hour)
		require.NoError(t, err)
		require.Equal(t, first, same)
		time.Sleep(time.Second)
		next, err := w.token("vault", 1000*time.Hour)
		require.NoError(t, err)
		require.NotEqual(t, first, next)
	})
}

// TestTokensDuringOutage: a token counts until it expires, no longer.
func TestTokensDuringOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startWithPod()
		first := w.requireToken(tokenCall)
		w.fail(errDown)
		time.Sleep(time.Hour - time.Second)
		got, err := w.token("vault", time.Hour)
		require.NoError(t, err)
		require.Equal(t, first, got)
		time.Sleep(time.Second)
		_, err = w.token("vault", time.Hour)
		require.ErrorIs(t, err, errDown)
		require.NotContains(t, err.Error(), first)
	})
}

// TestTokensGoWithTheirPod: a pod that has gone gets no token, and a later pod of its name another
// one.
func TestTokensGoWithTheirPod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startWithPod()
		first := w.requireToken(tokenCall)
		w.remove(tokenPod())
		synctest.Wait()
		_, err := w.token("vault", time.Hour)
		require.ErrorContains(t, err, "the pod has gone")
		require.Empty(t, w.takeCalls())
		w.put(tokenPod())
		synctest.Wait()
		require.NotEqual(t, first, w.requireToken(tokenCall))
	})
}

// TestConcurrentTokens: volumes of a pod that are set up at the same time share a token.
func TestConcurrentTokens(t *testing.T) {
	inWorld(t, func(w *world) {
		w.startWithPod()
		w.server.Inject(apitest.Fault{Call: apitest.Call{Subresource: "token"}, Latency: time.Second})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, err := w.token("vault", time.Hour)
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, []string{tokenCall}, w.takeCalls())
	})
}
