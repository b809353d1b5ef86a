package contract

import (
	"strings"

	"github.com/volumekit/volumekit/internal/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var configurationTests = map[string]func(*contract){
	"SecretDefaults": func(c *contract) {
		secret := create(c, c.Cluster.Secrets(c.namespace), &v1.Secret{ObjectMeta: c.meta("a"), StringData: map[string]string{"a": "x"}})
		require.Equal(c, v1.SecretTypeOpaque, secret.Type)
		require.Equal(c, "x", string(secret.Data["a"]))
		require.Empty(c, secret.StringData)
		secret.Type = "example.com/other"
		_, err := c.Cluster.Secrets(c.namespace).Update(c.ctx, secret, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"ImmutableSecret": func(c *contract) {
		secrets := c.Cluster.Secrets(c.namespace)
		secret := create(c, secrets, &v1.Secret{ObjectMeta: c.meta("a"), Immutable: pointer(true), Data: map[string][]byte{"a": []byte("x")}})
		changed := secret.DeepCopy()
		changed.Data["a"] = []byte("y")
		_, err := secrets.Update(c.ctx, changed, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
		changed = secret.DeepCopy()
		changed.Immutable = nil
		_, err = secrets.Update(c.ctx, changed, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
		secret.Labels = map[string]string{"a": "b"}
		update(c, secrets, secret)
	},
	"ImmutableConfigMap": func(c *contract) {
		object := c.newConfigMap("a")
		object.Immutable = pointer(true)
		created := create(c, c.configMaps(), object)
		created.Data["key"] = "new"
		_, err := c.configMaps().Update(c.ctx, created, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"InvalidConfigMaps": func(c *contract) {
		for name, breaks := range map[string]func(*v1.ConfigMap){
			"key":       func(configMap *v1.ConfigMap) { configMap.Data = map[string]string{"../x": "y"} },
			"same key":  func(configMap *v1.ConfigMap) { configMap.BinaryData = map[string][]byte{"key": []byte("y")} },
			"too large": func(configMap *v1.ConfigMap) { configMap.Data["key"] = strings.Repeat("x", 1<<20+1) },
		} {
			object := c.newConfigMap("a")
			breaks(object)
			_, err := c.configMaps().Create(c.ctx, object, metav1.CreateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"NamespaceDefaults": func(c *contract) {
		namespace, err := c.Cluster.Namespaces().Get(c.ctx, c.namespace, metav1.GetOptions{})
		require.NoError(c, err)
		require.Equal(c, v1.NamespaceActive, namespace.Status.Phase)
		require.Equal(c, []v1.FinalizerName{v1.FinalizerKubernetes}, namespace.Spec.Finalizers)
		require.Equal(c, c.namespace, namespace.Labels[v1.LabelMetadataName])
	},
	"EventsOfObjects": func(c *contract) {
		events := c.Cluster.Events(c.namespace)
		event := &v1.Event{ObjectMeta: c.meta("a"), Reason: "Provisioning", Type: v1.EventTypeNormal,
			InvolvedObject: v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.namespace, Name: "claim"}}
		create(c, events, event)
		list, err := events.List(c.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=claim,reason=Provisioning,type=Normal"})
		require.NoError(c, err)
		require.Len(c, list.Items, 1)
		event.Name, event.InvolvedObject.Namespace = "b", "other"
		_, err = events.Create(c.ctx, event, metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"Tokens": func(c *contract) {
		accounts := c.Cluster.ServiceAccounts(c.namespace)
		create(c, accounts, &v1.ServiceAccount{ObjectMeta: c.meta("account")})
		token, err := accounts.CreateToken(c.ctx, "account", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{"driver"}, ExpirationSeconds: pointer(int64(600))}}, metav1.CreateOptions{})
		require.NoError(c, err)
		require.Len(c, strings.Split(token.Status.Token, "."), 3)
		require.Equal(c, []string{"driver"}, token.Spec.Audiences)
		require.Equal(c, int64(600), token.Status.ExpirationTimestamp.Unix()-token.CreationTimestamp.Unix())
		require.Equal(c, "account", token.Name)
	},
	"TokenDefaults": func(c *contract) {
		accounts := c.Cluster.ServiceAccounts(c.namespace)
		create(c, accounts, &v1.ServiceAccount{ObjectMeta: c.meta("account")})
		token, err := accounts.CreateToken(c.ctx, "account", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		require.NoError(c, err)
		require.Equal(c, pointer(int64(3600)), token.Spec.ExpirationSeconds)
		require.Len(c, token.Spec.Audiences, 1)
	},
	"BoundTokens": func(c *contract) {
		accounts := c.Cluster.ServiceAccounts(c.namespace)
		create(c, accounts, &v1.ServiceAccount{ObjectMeta: c.meta("account")})
		pod := c.newPod("a")
		pod.Spec.ServiceAccountName = "account"
		pod = create(c, c.pods(), pod)
		create(c, c.pods(), c.newPod("other"))
		request := func(ref authenticationv1.BoundObjectReference) error {
			ref.APIVersion, ref.Kind = "v1", "Pod"
			_, err := accounts.CreateToken(c.ctx, "account", &authenticationv1.TokenRequest{
				Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &ref}}, metav1.CreateOptions{})
			return err
		}
		require.NoError(c, request(authenticationv1.BoundObjectReference{Name: "a", UID: pod.UID}))
		c.refused(request(authenticationv1.BoundObjectReference{Name: "a", UID: "other"}), metav1.StatusReasonConflict)
		c.refused(request(authenticationv1.BoundObjectReference{Name: "none"}), metav1.StatusReasonNotFound)
		c.refused(request(authenticationv1.BoundObjectReference{Name: "other"}), metav1.StatusReasonBadRequest)
	},
	"InvalidTokens": func(c *contract) {
		accounts := c.Cluster.ServiceAccounts(c.namespace)
		_, err := accounts.CreateToken(c.ctx, "account", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonNotFound)
		create(c, accounts, &v1.ServiceAccount{ObjectMeta: c.meta("account")})
		_, err = accounts.CreateToken(c.ctx, "account", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: pointer(int64(60))}}, metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
}
