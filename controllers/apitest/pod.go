package apitest

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var podKind = newKind(kind{resource: core("pods"), namespaced: true, status: true, index: "spec.nodeName"}, rules[*v1.Pod]{
	fields: map[string]func(*v1.Pod) string{
		"spec.nodeName":            func(p *v1.Pod) string { return p.Spec.NodeName },
		"spec.restartPolicy":       func(p *v1.Pod) string { return string(p.Spec.RestartPolicy) },
		"spec.schedulerName":       func(p *v1.Pod) string { return p.Spec.SchedulerName },
		"spec.serviceAccountName":  func(p *v1.Pod) string { return p.Spec.ServiceAccountName },
		"spec.hostNetwork":         func(p *v1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
		"status.phase":             func(p *v1.Pod) string { return string(p.Status.Phase) },
		"status.nominatedNodeName": func(p *v1.Pod) string { return p.Status.NominatedNodeName },
		"status.podIP": func(p *v1.Pod) string {
			if len(p.Status.PodIPs) == 0 {
				return ""
			}
			return p.Status.PodIPs[0].IP
		},
	},
	prepareCreate: func(p *v1.Pod) {
		p.Generation = 1
		p.Status = v1.PodStatus{Phase: v1.PodPending, QOSClass: podQOS(p)}
	},
	prepareUpdate: func(p, old *v1.Pod) {
		p.Status = old.Status
		setPodDefaults(p)
		if !equality.Semantic.DeepEqual(p.Spec, old.Spec) {
			p.Generation++
		}
	},
	prepareStatus: func(p, old *v1.Pod) {
		p.Spec, p.OwnerReferences, p.DeletionTimestamp = old.Spec, old.OwnerReferences, nil
		setDefault(&p.Status.QOSClass, old.Status.QOSClass)
	},
	setDefaults:    setPodDefaults,
	validate:       validatePod,
	validateUpdate: validatePodUpdate,
})

func setPodDefaults(p *v1.Pod) {
	s := &p.Spec
	setDefault(&s.RestartPolicy, v1.RestartPolicyAlways)
	setDefault(&s.DNSPolicy, v1.DNSClusterFirst)
	setDefault(&s.SchedulerName, v1.DefaultSchedulerName)
	setPointer(&s.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	setPointer(&s.SecurityContext, v1.PodSecurityContext{})
	setPointer(&s.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	setPointer(&s.Priority, 0)
	setPointer(&s.PreemptionPolicy, v1.PreemptLowerPriority)
	setDefault(&s.ServiceAccountName, s.DeprecatedServiceAccount)
	s.DeprecatedServiceAccount = s.ServiceAccountName
	for _, containers := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			c := &containers[i]
			setDefault(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
			setDefault(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
			setDefault(&c.ImagePullPolicy, v1.PullAlways)
		}
	}
	for i := range s.Volumes {
		setVolumeDefaults(&s.Volumes[i])
	}
}

// setVolumeDefaults sets the defaults of a volume in place. No stored object may share the volume.
func setVolumeDefaults(v *v1.Volume) {
	if v.VolumeSource == (v1.VolumeSource{}) {
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	switch {
	case v.ConfigMap != nil:
		setPointer(&v.ConfigMap.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	case v.Secret != nil:
		setPointer(&v.Secret.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	case v.DownwardAPI != nil:
		setPointer(&v.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
	case v.Projected != nil:
		setPointer(&v.Projected.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil {
				setPointer(&source.ServiceAccountToken.ExpirationSeconds, 3600)
			}
		}
	case v.HostPath != nil:
		setPointer(&v.HostPath.Type, v1.HostPathUnset)
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		setPointer(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	}
}

// podQOS returns the quality of service class of a pod by the requests and limits of its
// containers.
func podQOS(p *v1.Pod) v1.PodQOSClass {
	guaranteed, any := true, false
	for _, c := range p.Spec.Containers {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			any = any || !request.IsZero() || !limit.IsZero()
			guaranteed = guaranteed && !limit.IsZero() && (request.IsZero() || request.Cmp(limit) == 0)
		}
	}
	switch {
	case !any:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}

func validatePod(p *v1.Pod) (errs field.ErrorList) {
	path := specPath.Child("containers")
	if len(p.Spec.Containers) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	for i, c := range p.Spec.Containers {
		if c.Name == "" {
			errs = append(errs, field.Required(path.Index(i).Child("name"), ""))
		}
		if c.Image == "" {
			errs = append(errs, field.Required(path.Index(i).Child("image"), ""))
		}
	}
	names := map[string]bool{}
	for i, v := range p.Spec.Volumes {
		if v.Name == "" {
			errs = append(errs, field.Required(specPath.Child("volumes").Index(i).Child("name"), ""))
		}
		if names[v.Name] {
			errs = append(errs, field.Duplicate(specPath.Child("volumes").Index(i).Child("name"), v.Name))
		}
		names[v.Name] = true
		if claim := p.Name + "-" + v.Name; v.Ephemeral != nil && p.Name != "" {
			for _, problem := range validation.NameIsDNSSubdomain(claim, false) {
				errs = append(errs, field.Invalid(specPath.Child("volumes").Index(i).Child("name"), v.Name, fmt.Sprintf("PVC name %q: %v", claim, problem)))
			}
		}
	}
	for i, c := range p.Spec.Containers {
		for j, m := range c.VolumeMounts {
			if !names[m.Name] {
				errs = append(errs, field.NotFound(path.Index(i).Child("volumeMounts").Index(j).Child("name"), m.Name))
			}
		}
	}
	return errs
}

// validatePodUpdate permits changes of images, the active deadline and tolerations, and the removal
// of scheduling gates. It refuses other changes of the spec. A binding sets the node, see
// Server.BindPod.
func validatePodUpdate(p, old *v1.Pod) (errs field.ErrorList) {
	spec := p.Spec.DeepCopy()
	for _, both := range [][2][]v1.Container{{spec.Containers, old.Spec.Containers}, {spec.InitContainers, old.Spec.InitContainers}} {
		for i := range min(len(both[0]), len(both[1])) {
			both[0][i].Image = both[1][i].Image
		}
	}
	spec.ActiveDeadlineSeconds, spec.Tolerations = old.Spec.ActiveDeadlineSeconds, old.Spec.Tolerations
	if len(spec.SchedulingGates) <= len(old.Spec.SchedulingGates) {
		spec.SchedulingGates = old.Spec.SchedulingGates
	}
	if !equality.Semantic.DeepEqual(*spec, old.Spec) {
		errs = append(errs, field.Forbidden(specPath, "pod updates may not change fields other than `spec.containers[*].image`,"+
			"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)"))
	}
	return errs
}
