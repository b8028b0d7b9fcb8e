-- One row for each person that was seen: the table that the plan's schema describes.
SELECT
    year(first.day) - person.year_of_birth AS age,
    CASE person.gender_concept_id WHEN 8532 THEN 'f' WHEN 8507 THEN 'm' END AS sex,
    CAST(first.day AS DATE) AS first_seen,
    CASE WHEN first.day > DATE '2016-06-05' THEN 1 ELSE 0 END AS seen_late,
    CASE WHEN ill.person_id IS NULL THEN 0 ELSE 1 END AS diabetes,
    last_value.hba1c AS hba1c
FROM person
JOIN (
    SELECT person_id, min(visit_start_date) AS day
    FROM visit_occurrence GROUP BY person_id
) AS first ON first.person_id = person.person_id
LEFT JOIN (
    SELECT DISTINCT person_id
    FROM condition_occurrence WHERE condition_concept_id = 201826
) AS ill ON ill.person_id = person.person_id
LEFT JOIN (
    SELECT person_id, arg_max(value_as_number, measurement_date) AS hba1c
    FROM measurement WHERE measurement_concept_id = 3004410 GROUP BY person_id
) AS last_value ON last_value.person_id = person.person_id
