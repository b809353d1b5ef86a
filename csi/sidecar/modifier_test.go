package sidecar_test

import (
	"errors"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/controllers/modify"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/volume"
)

// TestModifyCalls: the call has the parameters of the class, and on request the names of claim and volume.
func TestModifyCalls(t *testing.T) {
	for _, extra := range []bool{false, true} {
		inWorld(t, all, func(w *world) {
			w.addVolume(nil)
			m, err := sidecar.NewModifier(w.open(), w.cluster, extra)
			require.NoError(w, err)
			pv := newVolume(nil)
			require.Equal(w, driverName, m.Name(pv))
			require.Empty(w, m.Name(&v1.PersistentVolume{}))
			require.Empty(w, m.Name(newVolume(func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "other" })))
			claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"}}
			require.NoError(w, m.Modify(w.Context(), modify.Request{Claim: claim, Volume: pv, Parameters: map[string]string{"iops": "9"}}))
			want := "ControllerModifyVolume volume_id=v mutable_parameters={iops=9}"
			if extra {
				want = "ControllerModifyVolume volume_id=v mutable_parameters={csi.storage.k8s.io/pv/name=pv csi.storage.k8s.io/pvc/name=data csi.storage.k8s.io/pvc/namespace=team iops=9}"
			}
			require.Equal(w, []string{want}, w.texts(csitest.ControllerModifyVolume))
			require.Empty(w, w.driver.Violations())
		})
	}
	inWorld(t, without(all, csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME), func(w *world) {
		_, err := sidecar.NewModifier(w.open(), w.cluster, false)
		require.ErrorIs(w, err, volume.ErrNotSupported)
	})
}

// TestModifySecret: the call has the Secret of the annotations, or without both of them that of the expansion. Without
// the Secret there is no call.
func TestModifySecret(t *testing.T) {
	const name, ns = "volume.kubernetes.io/controller-modify-secret-name", "volume.kubernetes.io/controller-modify-secret-namespace"
	const plain = "ControllerModifyVolume volume_id=v mutable_parameters={iops=9}"
	for title, c := range map[string]struct {
		annotations map[string]string
		expand      string // the Secret of the expansion
		call        string // "": none
	}{
		"none":             {nil, "", plain},
		"annotations":      {map[string]string{name: "login", ns: "storage"}, "missing", plain + " secrets={password}"},
		"of the expansion": {nil, "login", plain + " secrets={password}"},
		"no namespace":     {map[string]string{name: "missing"}, "login", plain + " secrets={password}"},
		"no name":          {map[string]string{ns: "storage"}, "login", plain + " secrets={password}"},
		"missing":          {map[string]string{name: "missing", ns: "storage"}, "login", ""},
	} {
		t.Run(title, func(t *testing.T) {
			inWorld(t, all, func(w *world) {
				w.createSecret("storage", "login")
				w.addVolume(nil)
				m, err := sidecar.NewModifier(w.open(), w.cluster, false)
				require.NoError(w, err)
				pv := newVolume(nil)
				if pv.Annotations = c.annotations; c.expand != "" {
					pv.Spec.CSI.ControllerExpandSecretRef = &v1.SecretReference{Namespace: "storage", Name: c.expand}
				}
				err = m.Modify(w.Context(), modify.Request{Volume: pv, Parameters: map[string]string{"iops": "9"}})
				if c.call == "" {
					require.ErrorContains(w, err, "secret storage/missing not found")
					require.Equal(w, volume.Transient, volume.KindOf(err))
					require.Empty(w, w.texts(csitest.ControllerModifyVolume))
					return
				}
				require.NoError(w, err)
				require.Equal(w, []string{c.call}, w.texts(csitest.ControllerModifyVolume))
				require.Empty(w, w.driver.Violations())
			})
		})
	}
}

// TestCodesOfModifications: each code of ControllerModifyVolume has the outcome that package modify acts on.
func TestCodesOfModifications(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		inWorld(t, all, func(w *world) {
			w.addVolume(nil)
			w.driver.Inject(csitest.Fault{Method: csitest.ControllerModifyVolume, Code: code})
			m, err := sidecar.NewModifier(w.open(), w.cluster, false)
			require.NoError(w, err)
			err = m.Modify(w.Context(), modify.Request{Volume: newVolume(nil), Parameters: map[string]string{"iops": "9"}})
			kind := volume.Final
			switch code {
			case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
				kind = volume.Uncertain
			}
			require.Equal(w, kind, volume.KindOf(err), "%v", err)
			require.Equal(w, code == codes.InvalidArgument, errors.Is(err, volume.ErrInfeasible), "%v", err)
		})
	}
}

// TestAttributesClass: a claim is provisioned with a class, and its volume changes to another one.
func TestAttributesClass(t *testing.T) {
	inWorld(t, all, func(w *world) {
		for name, iops := range map[string]string{"slow": "1", "fast": "100"} {
			create(w, w.cluster.VolumeAttributesClasses(), &storagev1beta1.VolumeAttributesClass{
				ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: driverName, Parameters: map[string]string{"iops": iops},
			})
		}
		w.createSecret("storage", "login")
		w.createClass(map[string]string{parameterKey + "secret-name": "login", parameterKey + "secret-namespace": "storage"}, nil)
		w.runOthers()
		w.run()
		claim, slow, fast := newClaim("data"), "slow", "fast"
		claim.Spec.VolumeAttributesClassName = &slow
		create(w, w.cluster.PersistentVolumeClaims(namespace), claim)
		w.settle()
		w.settle()
		require.Equal(w, &slow, w.claim("data").Status.CurrentVolumeAttributesClassName)
		require.Empty(w, w.texts(csitest.ControllerModifyVolume))

		claim = w.claim("data")
		claim.Spec.VolumeAttributesClassName = &fast
		_, err := w.cluster.PersistentVolumeClaims(namespace).Update(w.Context(), claim, metav1.UpdateOptions{})
		require.NoError(w, err)
		time.Sleep(time.Minute)
		w.settle()
		require.Equal(w, &fast, w.claim("data").Status.CurrentVolumeAttributesClassName)
		require.Equal(w, &fast, w.volumeOf("data").Spec.VolumeAttributesClassName)
		require.Len(w, w.texts(csitest.ControllerModifyVolume), 1)
		require.Contains(w, w.texts(csitest.ControllerModifyVolume)[0], "secrets={password}")
		require.Empty(w, w.driver.Violations())
	})
}
