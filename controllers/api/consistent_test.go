package api_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A lister has no streamed lists, which are always consistent.
type lister struct{ api.ConfigMaps }

func (lister) IsWatchListSemanticsUnSupported() bool { return true }

// TestConsistentCache: the first list of a consistent cache is current while the API server answers
// other lists from an old state.
func TestConsistentCache(t *testing.T) {
	for _, consistent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := apitest.NewServer(apitest.Config{})
			defer s.StaleLists("")()
			defer s.HoldEvents("")()
			object := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
			_, err := s.Direct().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
			require.NoError(t, err)
			cache := api.NewCache(lister{s.Connect("controller").ConfigMaps("")}, api.CacheConfig{Consistent: consistent})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _ = cache.Run(ctx) }()
			require.NoError(t, cache.WaitForSync(t.Context()))
			_, ok := cache.Get(api.KeyOf(object))
			require.Equal(t, consistent, ok)
		})
	}
}
