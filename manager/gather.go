package manager

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// gathered are the answers of a [Source] about claims and volumes, each asked for once.
type gathered map[question]reply

// PersistentVolumeClaim is that of the source.
func (g gathered) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	r := g[question{namespace: namespace, name: name}]
	return r.claim, r.err
}

// PersistentVolume is that of the source.
func (g gathered) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	r := g[question{forVolume: true, name: name}]
	return r.volume, r.err
}

// gather asks for all claims that containers of the pods use, and for their volumes. It
// reports whether answers may be older than the generation that is asked for.
func (q *inquirer) gather(ctx context.Context, pods []*v1.Pod, generation int) (all gathered, old bool) {
	all = make(gathered, 2*len(pods)) // a claim and a volume each
	wanted := claimsOf(pods)
	oldClaims := q.askAll(ctx, wanted, generation, all)
	oldVolumes := q.askAll(ctx, volumesOf(wanted, all), generation, all)
	q.forget(all)
	return all, oldClaims || oldVolumes
}

// claimsOf returns what is to be asked for the pods, each once.
func claimsOf(pods []*v1.Pod) []question {
	claims, seen := make([]question, 0, len(pods)), make(map[question]bool, len(pods))
	for _, pod := range pods {
		if isTerminated(pod) {
			continue
		}
		for _, claim := range claimsIn(pod) {
			if !seen[claim] {
				seen[claim] = true
				claims = append(claims, claim)
			}
		}
	}
	return claims
}

func claimsIn(pod *v1.Pod) (claims []question) {
	var uses map[string]use
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name, _ := claimOf(pod, v)
		if name == "" {
			continue
		}
		if uses == nil {
			uses = usesOf(pod)
		}
		if _, used := uses[v.Name]; used {
			claims = append(claims, question{namespace: pod.Namespace, name: name})
		}
	}
	return claims
}

// volumesOf returns what is to be asked for the claims.
func volumesOf(claims []question, all gathered) []question {
	volumes, seen := make([]question, 0, len(claims)), make(map[question]bool, len(claims))
	for _, claim := range claims {
		r := all[claim]
		if r.err != nil || r.claim == nil || r.claim.Spec.VolumeName == "" {
			continue
		}
		volume := question{forVolume: true, name: r.claim.Spec.VolumeName}
		if !seen[volume] {
			seen[volume] = true
			volumes = append(volumes, volume)
		}
	}
	return volumes
}
