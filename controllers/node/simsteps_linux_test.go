package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simPod is a pod as the test has it.
type simPod struct {
	*v1.Pod
	finished   bool // Succeeded or Failed
	deleted    bool // the API server no longer has it
	containers bool // have not been ended
}

// A simClaim is a claim as the test has it.
type simClaim struct {
	*v1.PersistentVolumeClaim
	driver   string
	volume   string // "": not bound
	deleting bool

	request   int64        // the largest so far, in GiB
	expansion simExpansion // the next step of the controller
	allocated int64        // by the controller, in GiB; 0: it has nothing to do
}

// simSteps are the steps, with their frequencies: of all kinds of volumes, and of a few claims that
// many pods use, one after the other.
var simSteps = []struct {
	weight, ofClaims int
	do               func(*simulation)
}{
	{20, 30, (*simulation).addPod},
	{8, 20, (*simulation).endPod},
	{8, 8, (*simulation).deletePod},
	{4, 2, (*simulation).failPod},
	{4, 10, (*simulation).completePod},
	{2, 24, (*simulation).replacePod},
	{8, 2, (*simulation).addClaim},
	{14, 2, (*simulation).bindClaim},
	{3, 1, (*simulation).deleteClaim},
	{4, 2, (*simulation).removeClaims},
	{12, 0, (*simulation).changeContent},
	{12, 24, (*simulation).passTime},
	{4, 4, (*simulation).crash},
	{16, 16, (*simulation).disturb},
	{8, 8, (*simulation).recover},
	{4, 24, (*simulation).expandClaim},
	{2, 4, (*simulation).beat},
}

// step does one thing.
func (s *simulation) step() {
	s.restartCrashed()
	sum, weights := 0, make([]int, len(simSteps))
	for i, step := range simSteps {
		if weights[i] = step.weight; s.isOfClaims {
			weights[i] = step.ofClaims
		}
		sum += weights[i]
	}
	n := s.IntN(sum)
	for i, step := range simSteps {
		if n -= weights[i]; n < 0 {
			step.do(s)
			break
		}
	}
	s.updateWanted()
}

// restartCrashed starts the program again if a fault has ended it.
func (s *simulation) restartCrashed() {
	if s.node.program != nil && s.node.hasCrashed() {
		s.log("  the program has crashed during a call, and starts")
		s.node.crash()
		s.node.start(s.connect())
	}
}

// updateWanted passes the volumes of the pods of the API server to the controller.
func (s *simulation) updateWanted() {
	wanted := map[string]bool{}
	for _, p := range s.pods {
		for _, v := range p.Spec.Volumes {
			if c := s.claimOf(p.Pod, v); c != nil && c.volume != "" && c.driver != simPlain && s.isWanted(p) {
				wanted[c.volume] = true
			}
		}
	}
	s.controller.want(wanted)
}

// isWanted reports whether the controller attaches the volumes of a pod.
func (s *simulation) isWanted(p *simPod) bool { return !p.deleted && !p.finished }

// beat changes the status of the node as the kubelet and other programs do.
func (s *simulation) beat() {
	s.log("heartbeat")
	patch := fmt.Appendf(nil, `{"status":{"nodeInfo":{"bootID":"%d"}}}`, time.Now().UnixNano())
	_, err := s.cluster.Nodes().Patch(s.ctx, simNodeName, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	s.must(err)
}

// anyPod returns a pod for which is returns true, or nil.
func (s *simulation) anyPod(is func(*simPod) bool) *simPod {
	var some []*simPod
	for _, p := range s.pods {
		if is(p) {
			some = append(some, p)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[s.IntN(len(some))]
}

// isUsable reports whether a new pod may use the claim: not while it is being deleted.
func isUsable(c *simClaim) bool { return !c.deleting && len(c.OwnerReferences) == 0 }

// addPod creates a pod with an emptyDir, and some of: a claim, an ephemeral volume, a ConfigMap, a
// Secret, and a projected volume with a token.
func (s *simulation) addPod() {
	name := fmt.Sprint("pod-", s.IntN(6)) // names come again, UIDs do not
	if slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.Name == name && !p.deleted }) {
		return
	}
	s.podNumber++
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: simNamespace},
		Spec:       v1.PodSpec{NodeName: simNodeName, ServiceAccountName: "default"},
	}
	container := v1.Container{Name: "c", Image: "image"}
	add := func(name string, source v1.VolumeSource) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
		container.VolumeMounts = append(container.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	add("scratch", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
	usable := slices.DeleteFunc(slices.Clone(s.claims), func(c *simClaim) bool { return !isUsable(c) })
	if slices.Contains(usable, s.replaced) {
		add("claim", byClaim(s.replaced.Name))
	} else if len(usable) > 0 && (s.isOfClaims || s.IntN(3) > 0) {
		add("claim", byClaim(usable[s.IntN(len(usable))].Name))
	}
	if s.IntN(5) == 0 {
		add("ephemeral", v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: simClaimSpec()}}})
	}
	if s.IntN(3) == 0 {
		add("settings", byConfigMap(s.anyContent()))
	}
	if s.IntN(4) == 0 {
		add("key", bySecret(s.anyContent()))
	}
	if s.IntN(3) == 0 {
		life, optional := int64(7200), true
		add("all", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &life}},
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: s.anyContent()}, Optional: &optional}},
		}}})
	}
	p.Spec.Containers = []v1.Container{container}
	created, err := s.cluster.Pods(simNamespace).Create(s.ctx, p, metav1.CreateOptions{})
	if err != nil {
		s.must(err)
		return
	}
	s.log("pod %s.%d with %v", name, s.podNumber, volumeNames(created))
	s.node.setExists(created.UID, true)
	s.pods = append(s.pods, &simPod{Pod: created, containers: true})
}

func volumeNames(p *v1.Pod) (names []string) {
	for _, v := range p.Spec.Volumes {
		names = append(names, v.Name)
	}
	return names
}

func (s *simulation) anyContent() string { return fmt.Sprint("content-", s.IntN(4)) }

// endPod ends the containers of a pod that has finished, is deleted, or is being deleted; the API
// server then removes the pod.
func (s *simulation) endPod() {
	p := s.anyPod(func(p *simPod) bool {
		return p.containers && (p.finished || p.deleted || p.DeletionTimestamp != nil)
	})
	if p != nil {
		s.log("the containers of %s end", p.Name)
		s.endContainers(p)
	}
}

func (s *simulation) endContainers(p *simPod) {
	p.containers = false
	s.node.endContainers(p.UID)
	if p.DeletionTimestamp != nil {
		s.removePod(p)
	}
}

// removePod removes a pod from the API server.
func (s *simulation) removePod(p *simPod) {
	if p.deleted {
		return
	}
	p.deleted = true
	s.node.setExists(p.UID, false)
	now := int64(0)
	s.must(s.cluster.Pods(simNamespace).Delete(s.ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// deletePod deletes a pod: with a grace period, or at once while its containers run.
func (s *simulation) deletePod() {
	p := s.anyPod(func(p *simPod) bool { return !p.deleted })
	switch {
	case p == nil:
	case p.finished || s.IntN(2) == 0:
		s.log("%s is removed", p.Name)
		s.removePod(p)
	case p.DeletionTimestamp == nil:
		s.log("%s is deleted", p.Name)
		s.must(s.cluster.Pods(simNamespace).Delete(s.ctx, p.Name, metav1.DeleteOptions{}))
		p.DeletionTimestamp = &metav1.Time{}
	}
}

// failPod marks a pod as failed while its containers may run, as the pod garbage collector does for a
// lost node.
func (s *simulation) failPod() {
	if p := s.anyPod(func(p *simPod) bool { return !p.deleted && !p.finished }); p != nil {
		s.log("%s is marked as failed", p.Name)
		s.finish(p, v1.PodFailed)
	}
}

func (s *simulation) finish(p *simPod, phase v1.PodPhase) {
	p.finished = true
	s.node.setExists(p.UID, false)
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)
	_, err := s.cluster.Pods(simNamespace).Patch(s.ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	s.must(err)
}

// completePod ends the containers of a pod, which then is Succeeded.
func (s *simulation) completePod() {
	p := s.anyPod(func(p *simPod) bool { return !p.deleted && !p.finished && p.containers && p.DeletionTimestamp == nil })
	if p != nil {
		s.log("%s succeeds", p.Name)
		s.endContainers(p)
		s.finish(p, v1.PodSucceeded)
	}
}

// replacePod removes a pod and its containers, and creates one with the same claim soon afterwards.
func (s *simulation) replacePod() {
	p := s.anyPod(func(p *simPod) bool {
		return !p.deleted && p.containers && slices.Contains(volumeNames(p.Pod), "claim")
	})
	if p == nil {
		return
	}
	s.log("%s is replaced", p.Name)
	i := slices.Index(volumeNames(p.Pod), "claim")
	s.replaced = s.claimOf(p.Pod, p.Spec.Volumes[i])
	s.setDown(p)
	if d := s.IntN(3_000); s.server != nil {
		time.Sleep(time.Duration(d) * time.Millisecond)
	}
	s.addPod()
	s.replaced = nil
}

// setDown removes a pod from the API server after the end of its containers.
func (s *simulation) setDown(p *simPod) {
	s.endContainers(p)
	s.removePod(p)
}

func simClaimSpec() v1.PersistentVolumeClaimSpec {
	class := simClass
	return v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}, StorageClassName: &class,
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}
}

// addClaim creates a claim, or that of an ephemeral volume.
func (s *simulation) addClaim() {
	s.claimNumber++
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("claim-", s.claimNumber), Namespace: simNamespace}, Spec: simClaimSpec()}
	p := s.anyPod(func(p *simPod) bool {
		return !p.deleted && slices.Contains(volumeNames(p.Pod), "ephemeral") && s.claimNamed(p.Name+"-ephemeral") == nil
	})
	if p != nil {
		yes := true
		c.Name = p.Name + "-ephemeral"
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: &yes, BlockOwnerDeletion: &yes}}
	}
	s.createClaim(c)
}

// createClaim creates a claim, and binds it or not.
func (s *simulation) createClaim(c *v1.PersistentVolumeClaim) {
	s.log("claim %s", c.Name)
	created, err := s.cluster.PersistentVolumeClaims(simNamespace).Create(s.ctx, c, metav1.CreateOptions{})
	if err != nil {
		s.must(err)
		return
	}
	driver := simDrivers[s.IntN(len(simDrivers))]
	s.claims = append(s.claims, &simClaim{PersistentVolumeClaim: created, driver: driver, request: 1})
	if s.IntN(2) == 0 {
		s.bind(s.claims[len(s.claims)-1])
	}
}

func (s *simulation) claimNamed(name string) *simClaim {
	for _, c := range s.claims {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (s *simulation) bindClaim() {
	if i := slices.IndexFunc(s.claims, func(c *simClaim) bool { return c.volume == "" && !c.deleting }); i >= 0 {
		s.bind(s.claims[i])
	}
}

// bind creates a volume for a claim, and binds the two as the binder does.
func (s *simulation) bind(c *simClaim) {
	s.claimNumber++
	c.volume = fmt.Sprint("volume-", s.claimNumber)
	s.log("claim %s is bound to %s", c.Name, c.volume)
	directory := filepath.Join(s.node.disks, c.volume)
	s.must(os.Mkdir(directory, 0o755), os.WriteFile(filepath.Join(directory, simData), []byte(c.volume), 0o600))
	s.node.storage.Lock()
	s.node.volumes[c.volume] = &simDisk{volume: c.volume, driver: c.driver, source: directory, size: 1, fileSystem: 1}
	s.node.storage.Unlock()
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.volume}, Spec: v1.PersistentVolumeSpec{
		StorageClassName: simClass,
		Capacity:         c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
		ClaimRef:               &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: c.driver, VolumeHandle: directory}},
	}}
	_, err := s.cluster.PersistentVolumes().Create(s.ctx, pv, metav1.CreateOptions{})
	s.must(err)
	s.pause()
	claims := s.cluster.PersistentVolumeClaims(simNamespace)
	_, err = claims.Patch(s.ctx, c.Name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"volumeName":%q}}`, c.volume), metav1.PatchOptions{})
	s.must(err)
	s.pause()
	bound := []byte(`{"status":{"phase":"Bound"}}`)
	_, err = s.cluster.PersistentVolumes().Patch(s.ctx, c.volume, types.MergePatchType, bound, metav1.PatchOptions{}, "status")
	s.must(err)
	bound = []byte(`{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`)
	_, err = claims.Patch(s.ctx, c.Name, types.MergePatchType, bound, metav1.PatchOptions{}, "status")
	s.must(err)
}

// pause lets the program see an intermediate state, or not.
func (s *simulation) pause() {
	if s.IntN(2) == 0 && s.server != nil {
		time.Sleep(time.Second)
	}
}

func (s *simulation) deleteClaim() {
	if len(s.claims) == 0 {
		return
	}
	c := s.claims[s.IntN(len(s.claims))]
	if c.deleting {
		return
	}
	c.deleting = true
	s.log("claim %s is deleted", c.Name)
	s.must(s.cluster.PersistentVolumeClaims(simNamespace).Delete(s.ctx, c.Name, metav1.DeleteOptions{}))
}

// removeClaims does the work of the protection controller and of the garbage collector: it removes the
// claims in deletion that no pod of the API server uses, with their volumes, and those of ephemeral
// volumes of removed pods.
func (s *simulation) removeClaims() {
	s.claims = slices.DeleteFunc(s.claims, func(c *simClaim) bool {
		if s.isUsed(c) || !c.deleting && len(c.OwnerReferences) == 0 {
			return false
		}
		s.log("claim %s and volume %q are removed", c.Name, c.volume)
		claims := s.cluster.PersistentVolumeClaims(simNamespace)
		if !c.deleting {
			s.must(claims.Delete(s.ctx, c.Name, metav1.DeleteOptions{}))
		}
		noFinalizers := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := claims.Patch(s.ctx, c.Name, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
		s.must(err)
		if c.volume != "" {
			s.must(s.cluster.PersistentVolumes().Delete(s.ctx, c.volume, metav1.DeleteOptions{}))
			_, err = s.cluster.PersistentVolumes().Patch(s.ctx, c.volume, types.MergePatchType, noFinalizers, metav1.PatchOptions{})
			s.must(err)
		}
		return true
	})
}

// isUsed reports whether a pod of the API server uses a claim. A claim with an owner is that of an
// ephemeral volume.
func (s *simulation) isUsed(c *simClaim) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool {
		if p.deleted {
			return false
		}
		if len(c.OwnerReferences) > 0 {
			return c.OwnerReferences[0].UID == p.UID
		}
		return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name
		})
	})
}

// changeContent creates, changes or deletes a ConfigMap or a Secret.
func (s *simulation) changeContent() {
	isSecret, name := s.IntN(2) == 0, s.anyContent()
	key := simContentKey(isSecret, name)
	values := s.values[key]
	exists := len(values) > 0 && values[len(values)-1] != ""
	s.value++
	value := fmt.Sprint("value-", s.value)
	if exists && s.IntN(6) == 0 {
		value = ""
	}
	s.log("%s: %q", key, value)
	s.values[key] = append(values, value)
	meta := metav1.ObjectMeta{Name: name, Namespace: simNamespace}
	configMap := &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{simData: value}}
	secret := &v1.Secret{ObjectMeta: meta, Data: map[string][]byte{simData: []byte(value)}}
	configMaps, secrets := s.cluster.ConfigMaps(simNamespace), s.cluster.Secrets(simNamespace)
	var err error
	switch {
	case isSecret && value == "":
		err = secrets.Delete(s.ctx, name, metav1.DeleteOptions{})
	case value == "":
		err = configMaps.Delete(s.ctx, name, metav1.DeleteOptions{})
	case isSecret && exists:
		_, err = secrets.Update(s.ctx, secret, metav1.UpdateOptions{})
	case isSecret:
		_, err = secrets.Create(s.ctx, secret, metav1.CreateOptions{})
	case exists:
		_, err = configMaps.Update(s.ctx, configMap, metav1.UpdateOptions{})
	default:
		_, err = configMaps.Create(s.ctx, configMap, metav1.CreateOptions{})
	}
	s.must(err)
}

func simContentKey(isSecret bool, name string) string {
	if isSecret {
		return "secret " + name
	}
	return "configmap " + name
}

func (s *simulation) passTime() {
	var d time.Duration
	kind := s.IntN(8)
	if s.isOfClaims && kind < 2 {
		kind = 3
	}
	switch kind {
	case 0:
		d = time.Duration(s.IntN(120)) * time.Minute
	case 1, 2:
		d = time.Duration(s.IntN(600)) * time.Second
	default:
		d = time.Duration(s.IntN(30_000)) * time.Millisecond
	}
	s.log("%v pass", d)
	time.Sleep(d)
}

// crash ends the program, or starts it again.
func (s *simulation) crash() {
	if s.node.program == nil {
		s.log("the program starts")
		s.node.start(s.connect())
		return
	}
	s.log("the program crashes")
	s.node.crash()
	synctest.Wait()
	if s.IntN(3) > 0 {
		s.log("the program starts")
		s.node.start(s.connect())
	}
}
