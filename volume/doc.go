// Package volume holds the nouns of the Kubernetes volume lifecycle: what a
// volume is ([Spec]), who makes it usable on a node ([VolumePlugin]), where it
// lives there ([VolumeHost]) and how the plugin of a volume is found
// ([VolumePluginMgr]). The words are those of k8s.io/kubernetes/pkg/volume; the
// code links only the Kubernetes API types.
//
// # The contract
//
// A plugin turns a specification and a pod into a [Mounter], and a volume's name
// and a pod's UID into an [Unmounter]. Making them checks the input and changes
// nothing. SetUp brings the volume up at its path, TearDown takes it down from
// what is on disk alone, so it works after a restart and without the API server.
// Both are idempotent and safe for concurrent use, and return soon after their
// context ends.
//
// What only some plugins can do is in further interfaces, the abilities
// ([PersistentVolumePlugin], [AttachableVolumePlugin], [BlockVolumePlugin], ...).
// [As] finds one on a plugin, [FindBySpec] on the plugin of a volume. A plugin
// without an ability is no error: it is not of that kind.
//
// Package volumetest holds the contract as tests that a plugin can be put to.
//
// # Errors
//
// An error says what is true of the volume after it:
//
//   - transient, wraps [ErrTransient]: nothing has changed, and the same call may
//     succeed later;
//   - uncertain, wraps [ErrUncertain]: something may have changed. Treat the
//     volume as mounted: keep it in the books, and tear it down before it is
//     given to anybody else;
//   - final, wraps neither: nothing has changed, and the same call fails again.
//
// [KindOf] tells them apart. The error of a context that ended counts as
// transient unless it is uncertain. Input that is refused is a *field.Error of package
// k8s.io/apimachinery/pkg/util/validation/field, which names the field and the
// value (shortened, since anybody may have written it).
//
// # When not to use it
//
//   - To mount a file system at a path, without pods and plugins: package mount.
//   - To write a CSI driver's gRPC services: a driver implements another
//     interface. It can use plugins from inside, as it can use package mount.
//   - To provision storage for a cluster: the abilities name the operations, but
//     the controllers that call them need an API client, which this module lacks.
package volume
