// Package contract tests the rules of an API server that controllers rely on. Package apitest runs
// these tests. Package contract imports neither testing nor testify, because apitest does not.
package contract

import (
	"context"
	"maps"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// T has the methods of a *testing.T that the contract uses.
type T interface {
	require.TestingT
	Cleanup(f func())
	Context() context.Context
	Skip(args ...any)
}

// Config configures a test.
type Config struct {
	Cluster api.Cluster
	// Compact makes all versions so far expire. Nil: tests that need it are skipped.
	Compact func()
}

// A Test is one test of the contract.
type Test func(t T, config Config)

// Tests returns the contract's tests by name.
func Tests() map[string]Test {
	all := map[string]Test{}
	for _, tests := range []map[string]func(*contract){
		createTests, updateTests, deleteTests, patchTests, listTests, watchTests,
		claimTests, volumeTests, podTests, storageTests, configurationTests, trustBundleTests,
	} {
		for name, test := range tests {
			all[name] = func(t T, config Config) { test(newContract(t, config)) }
		}
	}
	return all
}

// A contract is one test with a namespace of its own. Names of cluster-scoped objects begin with
// the name of the namespace, and carry its label.
type contract struct {
	T
	Config
	ctx       context.Context
	namespace string
}

const ownerLabel = "contract"

// newContract creates the namespace of a test.
func newContract(t T, config Config) *contract {
	c := &contract{T: t, Config: config, ctx: t.Context()}
	namespace := &v1.Namespace{}
	namespace.GenerateName = "contract-"
	created, err := c.Cluster.Namespaces().Create(c.ctx, namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	c.namespace = created.Name
	return c
}

// meta returns the metadata of an object of the test, in its namespace.
func (c *contract) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: c.namespace, Name: name, Labels: map[string]string{ownerLabel: c.namespace}}
}

// clusterMeta returns the metadata of a cluster-scoped object of the test.
func (c *contract) clusterMeta(name string) metav1.ObjectMeta {
	m := c.meta(c.namespace + "-" + name)
	m.Namespace = ""
	return m
}

// refused requires an error with the reason.
func (c *contract) refused(err error, reason metav1.StatusReason) {
	c.Helper()
	require.Error(c, err)
	require.Equal(c, reason, apierrors.ReasonForError(err), err.Error())
}

func (c *contract) configMaps() api.ConfigMaps { return c.Cluster.ConfigMaps(c.namespace) }
func (c *contract) claims() api.PersistentVolumeClaims {
	return c.Cluster.PersistentVolumeClaims(c.namespace)
}
func (c *contract) volumes() api.PersistentVolumes { return c.Cluster.PersistentVolumes() }
func (c *contract) pods() api.Pods                 { return c.Cluster.Pods(c.namespace) }

// A creator is the part of a client that creates objects.
type creator[O any] interface {
	Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error)
}

// create creates an object and returns it as the server stored it. It fails the test on an error.
func create[O any](c *contract, client creator[O], object O) O {
	c.Helper()
	created, err := client.Create(c.ctx, object, metav1.CreateOptions{})
	require.NoError(c, err)
	return created
}

func update[O api.Object](c *contract, client api.Writer[O], object O) O {
	c.Helper()
	updated, err := client.Update(c.ctx, object, metav1.UpdateOptions{})
	require.NoError(c, err)
	return updated
}

func updateStatus[O api.Object](c *contract, client api.StatusWriter[O], object O) O {
	c.Helper()
	updated, err := client.UpdateStatus(c.ctx, object, metav1.UpdateOptions{})
	require.NoError(c, err)
	return updated
}

func (c *contract) newConfigMap(name string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: c.meta(name), Data: map[string]string{"key": "value"}}
}

func (c *contract) createConfigMap(name string) *v1.ConfigMap {
	c.Helper()
	return create(c, c.configMaps(), c.newConfigMap(name))
}

// change sets the value of a ConfigMap's key and returns the stored ConfigMap.
func (c *contract) change(configMap *v1.ConfigMap, value string) *v1.ConfigMap {
	c.Helper()
	configMap = configMap.DeepCopy()
	configMap.Data = maps.Clone(configMap.Data)
	configMap.Data["key"] = value
	return update(c, c.configMaps(), configMap)
}

func (c *contract) remove(name string) {
	c.Helper()
	require.NoError(c, c.configMaps().Delete(c.ctx, name, metav1.DeleteOptions{}))
}

func size(text string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
}

func pointer[T any](value T) *T { return &value }

// patience is the time limit of the wait for an expected event.
const patience = 30 * time.Second

// watchConfigMaps opens a watch that ends with the test.
func (c *contract) watchConfigMaps(options metav1.ListOptions) watch.Interface {
	c.Helper()
	w, err := c.configMaps().Watch(c.ctx, options)
	require.NoError(c, err)
	c.Cleanup(w.Stop)
	return w
}

// next returns the next event of a watch. It fails the test if no event comes, or if the watch
// ends.
func (c *contract) next(w watch.Interface) watch.Event {
	c.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case event, ok := <-w.ResultChan():
		require.True(c, ok, "the watch has ended")
		return event
	case <-timer.C:
		c.Fatalf("no event within %v", patience)
		return watch.Event{}
	}
}

// expect reads events of ConfigMaps, compares them with "TYPE NAME=VALUE", and returns their
// versions.
func (c *contract) expect(w watch.Interface, want ...string) (versions []string) {
	c.Helper()
	for _, text := range want {
		event := c.next(w)
		configMap, ok := event.Object.(*v1.ConfigMap)
		require.True(c, ok, "%s: %#v", event.Type, event.Object)
		require.Equal(c, text, string(event.Type)+" "+configMap.Name+"="+configMap.Data["key"])
		versions = append(versions, configMap.ResourceVersion)
	}
	return versions
}
