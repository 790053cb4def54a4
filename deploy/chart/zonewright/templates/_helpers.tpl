{{- /* zonewright.file: (list ROOT PATH) reads the objects of a file of kustomize's, as {"items": [...]}. */ -}}
{{- define "zonewright.file" -}}
{{- $root := index . 0 }}
{{- $items := list }}
{{- range regexSplit "(?m)^---$" ($root.Files.Get (index . 1)) -1 }}
{{- $items = append $items (fromYaml .) }}
{{- end }}
{{- dict "items" $items | toJson }}
{{- end }}

{{- /* zonewright.object: (list ROOT OBJECT) prints it with the release's namespace and labels. */ -}}
{{- define "zonewright.object" -}}
{{- $root := index . 0 }}
{{- $it := index . 1 }}
{{- $labels := merge (dict "app.kubernetes.io/name" "zonewright" "app.kubernetes.io/part-of" "zonewright") ($it.metadata.labels | default dict) $root.Values.customLabels }}
{{- $_ := set $it.metadata "labels" $labels }}
{{- with $root.Values.customAnnotations }}
{{- $_ := set $it.metadata "annotations" (merge (dict) ($it.metadata.annotations | default dict) .) }}
{{- end }}
{{- if not (hasPrefix "ClusterRole" $it.kind) }}
{{- $_ := set $it.metadata "namespace" $root.Release.Namespace }}
{{- end }}
{{- range $it.subjects }}
{{- $_ := set . "namespace" $root.Release.Namespace }}
{{- $_ := set . "name" $root.Values.serviceAccount.name }}
{{- end }}
---
{{ toYaml $it }}
{{ end }}

{{- /* zonewright.corefile: the servers of CoreDNS's chart as a Corefile. */ -}}
{{- define "zonewright.corefile" -}}
{{- range $server := .Values.servers }}
{{- range $zone := $server.zones | default (list (dict "zone" ".")) }}{{ $zone.scheme | default "" }}{{ $zone.zone }}{{ with $server.port }}:{{ . }}{{ end }} {{ end }}{
{{- range $server.plugins }}
    {{ .name }}{{ with .parameters }} {{ . }}{{ end }}{{ with .configBlock }} {
{{ . | trim | indent 8 }}
    }{{ end }}
{{- end }}
}
{{ end }}
{{- end }}

{{- /* zonewright.check: refuses values that contradict each other, of which one would be ignored, and a Corefile without what the
probes of the pod ask. */ -}}
{{- define "zonewright.check" -}}
{{- $v := .Values }}
{{- $given := list }}
{{- range $key := list "existingConfigMap" "corefile" "servers" }}
{{- if index $v $key }}{{ $given = append $given $key }}{{ end }}
{{- end }}
{{- if gt (len $given) 1 }}
{{- fail (printf "%s are set, but the Corefile comes from one of existingConfigMap, corefile and servers: set the others to an empty value" (join " and " $given)) }}
{{- end }}
{{- if and $v.persistence.enabled (gt (int $v.replicaCount) 1) }}
{{- fail (printf "replicaCount is %d, but persistence.enabled gives all pods one volume claim (ReadWriteOnce), and one pod locks the store in it: set replicaCount to 1, or persistence.enabled to false where no secondary takes zones by transfer" (int $v.replicaCount)) }}
{{- end }}
{{- $text := $v.corefile }}
{{- $where := "corefile" }}
{{- if $v.servers }}
{{- $text = include "zonewright.corefile" . }}
{{- $where = "servers" }}
{{- else if $v.existingConfigMap }}
{{- /* Without a cluster, as in `helm template`, it is not known. */}}
{{- $text = dig "data" "Corefile" "" (lookup "v1" "ConfigMap" .Release.Namespace $v.existingConfigMap) }}
{{- $where = printf "the Corefile of the ConfigMap %s" $v.existingConfigMap }}
{{- end }}
{{- /* What a Corefile imports is not known here. */}}
{{- if and $text (not (regexMatch "(?m)^\\s*import\\s" $text)) }}
{{- range $word, $probes := dict "health" (list "livenessProbe" "startupProbe") "ready" (list "readinessProbe") }}
{{- if not (regexMatch (printf "(?m)^\\s*%s(\\s|$)" $word) $text) }}
{{- range $probe := $probes }}
{{- if not (index $v $probe) }}
{{- fail (printf "%s lacks `%s`, which the %s of the pod asks: without it the pod is never ready, or is restarted. Write `%s` into a server block, or set %s" $where $word $probe $word $probe) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
